import path from 'node:path'

import { runBackendContract } from '@osmosis/testing'
import { createWorkerPool } from '@osmosis/server/child'
import { afterAll, describe, it } from 'vitest'

const module = path.join(import.meta.dirname, 'contract-worker.ts')

runBackendContract({ describe, it, afterAll }, 'WorkerPoolBackend', {
  open: async (entrypoint) =>
    createWorkerPool({ module, args: [entrypoint], execArgv: [], workers: 2 }),
})
