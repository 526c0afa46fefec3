import { completeEnvironment } from '../command/environment.ts'
import { disablePretenuring } from '../command/process.ts'
import { planWorker } from './worker-plan.ts'
import type { WorkerFlags } from './worker.ts'

/**
 * Runs rollouts of a queue or of a trainer, as the flags say, until a signal ends the process.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `queue_unavailable` when the
 * Redis does not answer, `unauthorized` when the trainer refuses the key
 */
export async function workerCommand(entrypoint: string, flags: WorkerFlags): Promise<void> {
  const plan = planWorker(entrypoint, flags)
  const { source } = plan
  disablePretenuring()
  completeEnvironment()
  if (source.kind === 'agent-lightning') {
    const { lightningWorker } = await import('./lightning-worker.ts')
    await lightningWorker(plan, source)
  } else {
    const { queueWorker } = await import('./queue-worker.ts')
    await queueWorker(plan, source)
  }
}
