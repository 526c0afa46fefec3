import { completeEnvironment } from '../environment.ts'
import { assertWorkerFlags } from '../serve/serve-command.ts'
import { guessNoLifetimes } from '../young-generation.ts'
import { rolloutSource } from './rollout-source.ts'
import type { WorkerFlags } from './worker-options.ts'

/**
 * Runs rollouts of a queue or of a trainer, as the flags say, until a signal ends the process.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `queue_unavailable` when the
 * Redis does not answer, `unauthorized` when the trainer refuses the key
 */
export async function workerCommand(entrypoint: string, flags: WorkerFlags): Promise<void> {
  const source = rolloutSource(flags)
  assertWorkerFlags(flags)
  guessNoLifetimes()
  completeEnvironment()
  if (source === 'trainer') {
    const { trainerWorker } = await import('./trainer-worker.ts')
    await trainerWorker(entrypoint, flags)
  } else {
    const { queueWorker } = await import('./queue-worker.ts')
    await queueWorker(entrypoint, source.redis, flags)
  }
}
