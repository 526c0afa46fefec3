import { LocalBackend } from '@osmosis/server/execution'
import { contractEntrypoints, runBackendContract } from '@osmosis/testing'
import { afterAll, describe, it } from 'vitest'

runBackendContract({ describe, it, afterAll }, 'LocalBackend', {
  open: async (entrypoint) => new LocalBackend(contractEntrypoints[entrypoint]),
})
