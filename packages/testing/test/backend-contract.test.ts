import { LocalBackend } from '@osmosis/server/execution'
import { contractEntrypoints, runBackendContract } from '@osmosis/testing/kit/backend-contract'

runBackendContract('LocalBackend', {
  open: async (entrypoint) => new LocalBackend(contractEntrypoints[entrypoint]),
})
