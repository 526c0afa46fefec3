import path from 'node:path'

import { createWorkerPool } from '@osmosis/server/child'
import { runBackendContract } from '@osmosis/testing/kit/backend-contract'

const module = path.join(import.meta.dirname, 'contract-worker.ts')

runBackendContract('WorkerPoolBackend', {
  open: async (entrypoint) =>
    createWorkerPool({ module, args: [entrypoint], execArgv: [], workers: 2 }),
})
