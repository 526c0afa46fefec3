import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'

import { createWorkerPool, type WorkerEnd } from '@osmosis/workers'

import type { ProcessFlags } from './process-options.ts'
import type { BackendOptions, ServedWorkflow, WorkflowFacts } from './served-workflow.ts'
import { environment, workingFolder } from '../surroundings.ts'

/** What a worker is started with. */
export interface WorkerArguments extends BackendOptions {
  readonly spec: string
}

/**
 * Loads a workflow in as many worker processes as the flags say, and not in this one.
 *
 * @throws what loading it in this process would throw; OsmosisError with code `invalid_config` when
 * it is an agent loop
 */
export async function workflowInWorkers(
  started: WorkerArguments,
  { workers, stallTimeout, progressTimeout, workerMemory }: ProcessFlags,
  onWorkerEnd: (end: WorkerEnd) => void,
): Promise<ServedWorkflow> {
  const source = path.join(import.meta.dirname, 'worker-child.ts')
  const backend = await createWorkerPool({
    module: existsSync(source) ? source : source.replace(/ts$/, 'js'),
    args: [JSON.stringify(started)],
    cwd: workingFolder(),
    env: environment(),
    workers: workers === 'auto' ? availableParallelism() : workers,
    stallTimeoutSeconds: stallTimeout,
    progressTimeoutSeconds: progressTimeout,
    heapMegabytes: workerMemory,
    onWorkerEnd,
  })
  return {
    backend,
    facts: backend.facts as WorkflowFacts,
    check: async (rows) => (await backend.ask(rows)) as readonly (readonly string[])[],
    close: async () => backend.close(),
  }
}
