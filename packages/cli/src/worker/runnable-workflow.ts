import { readServerEnvironment, type Logger } from '@osmosis/server'

import { onlyWorkflow, queuedWorkflow } from '../queue/queue-access.ts'
import { loadEntrypoint } from '../serve/load-entrypoint.ts'
import { egressOf } from '../serve/process-options.ts'
import { localWorkflow, type ServedWorkflow } from '../serve/served-workflow.ts'
import { workflowInWorkers } from '../serve/workflow-in-workers.ts'
import type { WorkerFlags } from './worker-options.ts'
import { environment } from '../surroundings.ts'

/** Rollouts at a time of a workflow that sets no limit. */
export const defaultConcurrency = 64

/** The workflow that a worker runs, in this process or in processes of its own. */
export async function runnableWorkflow(
  entrypoint: string,
  flags: WorkerFlags,
  logger: Logger,
): Promise<ServedWorkflow> {
  const { artifactRoot } = readServerEnvironment(environment())
  const options = { artifactRoot, egress: egressOf(flags), maxConcurrent: flags.concurrency }
  if (flags.workers === undefined) {
    const loaded = await loadEntrypoint(entrypoint)
    const isQueued = flags.redis !== undefined
    const what = 'What a trainer hands out'
    return localWorkflow(isQueued ? queuedWorkflow(loaded) : onlyWorkflow(loaded, what), options)
  }
  return workflowInWorkers({ spec: entrypoint, ...options }, flags, (end) => {
    const { pid, what, rollouts, restartMs } = end
    logger.warn({ pid, rollouts, restart_ms: restartMs }, `a worker process ended: ${what}`)
  })
}
