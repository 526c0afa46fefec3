import path from 'node:path'

import { backendRules, runBackendContract, type BackendTestRunner } from '@osmosis/testing'
import { createWorkerPool } from '@osmosis/workers'
import { afterAll, describe, it } from 'vitest'

const module = path.join(import.meta.dirname, 'contract-worker.ts')
/** They need pools of their own. These and all others, with two workers, run among the slow tests. */
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
