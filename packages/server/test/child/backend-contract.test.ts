import path from 'node:path'

import { createWorkerPool } from '@osmosis/server/child'
import { describe } from 'vitest'

import { runBackendContract } from '../../../../test/kit/backend-contract/index.ts'

const module = path.join(import.meta.dirname, 'contract-worker.ts')

runBackendContract(
  'WorkerPoolBackend',
  {
    open: async (entrypoint) =>
      createWorkerPool({ module, args: [entrypoint], execArgv: [], workers: 1 }),
  },
  // These need pools of their own.
  ['names-missing-parts', 'shuts-down'],
)

describe('all rules', { tags: 'slow' }, () => {
  runBackendContract('WorkerPoolBackend with two workers', {
    open: async (entrypoint) =>
      createWorkerPool({ module, args: [entrypoint], execArgv: [], workers: 2 }),
  })
})
