// @module-tag slow
import path from 'node:path'

import { createWorkerPool } from '@osmosis/server/child'
import { runBackendContract } from '../../../../test/kit/backend-contract/index.ts'

const module = path.join(import.meta.dirname, 'contract-worker.ts')

runBackendContract('WorkerPoolBackend', {
  open: async (entrypoint) =>
    createWorkerPool({ module, args: [entrypoint], execArgv: [], workers: 2 }),
})
