import path from 'node:path'

import { backendRules, runBackendContract, type BackendTestRunner } from '@osmosis/testing'
import { createWorkerPool } from '@osmosis/server/child'
import { afterAll, describe, it } from 'vitest'

const module = path.join(import.meta.dirname, 'contract-worker.ts')
/** These cases need their own pools. The slow tests run all cases, with two workers. */
const costly = new Set<string>([backendRules['names-missing-parts'], backendRules['shuts-down']])
const declare: BackendTestRunner['it'] = it
const runner = {
  describe,
  it: (name: string, body: () => Promise<void>) =>
    costly.has(name) ? undefined : declare(name, body),
  afterAll,
}

runBackendContract(runner, 'WorkerPoolBackend', {
  open: async (entrypoint) =>
    createWorkerPool({ module, args: [entrypoint], execArgv: [], workers: 1 }),
})
