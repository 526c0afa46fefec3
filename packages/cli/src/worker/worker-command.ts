import { invalid } from '../command/exit-codes.ts'
import { assertWorkerFlags, refuseOneOf } from '../command/flags.ts'
import { disablePretenuring } from '../command/process.ts'
import { completeEnvironment } from '../command/environment.ts'
import type { WorkerFlags } from './worker.ts'

/**
 * Runs rollouts of a queue or of a trainer, as the flags say, until a signal ends the process.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `queue_unavailable` when the
 * Redis does not answer, `unauthorized` when the trainer refuses the key
 */
export async function workerCommand(entrypoint: string, flags: WorkerFlags): Promise<void> {
  const source = rolloutSource(flags)
  assertWorkerFlags(flags)
  disablePretenuring()
  completeEnvironment()
  if (source === 'trainer') {
    const { trainerWorker } = await import('./trainer-worker.ts')
    await trainerWorker(entrypoint, flags)
  } else {
    const { queueWorker } = await import('./queue-worker.ts')
    await queueWorker(entrypoint, source.redis, flags)
  }
}

/**
 * The source of a worker's rollouts.
 *
 * @throws OsmosisError with code `invalid_config` for flags of `worker` that do not fit together
 */
function rolloutSource(flags: WorkerFlags): 'trainer' | { readonly redis: string } {
  const sources = {
    '--redis': flags.redis,
    '--agent-lightning': flags.agentLightning,
  }
  const given = Object.entries(sources).flatMap(([flag, url]) => (url === undefined ? [] : [flag]))
  if (given.length === 0) {
    throw invalid(
      'Name one source of rollouts for the worker: --redis <url> or --agent-lightning <url>.',
    )
  }
  if (given.length > 1) {
    throw invalid(`${given.join(' and ')} exclude each other: a worker has one source of rollouts.`)
  }
  const ofAgentLightning = {
    '--reward': flags.reward,
    '--group-column': flags.groupColumn,
    '--group-size': flags.groupSize,
    '--rows': flags.rows,
  }
  if (flags.redis !== undefined) {
    refuseOneOf(
      ofAgentLightning,
      (flag) => `${flag} only applies to a trainer: with a queue its servers decide this.`,
    )
    return { redis: flags.redis }
  }
  const ofQueues = {
    '--lock-duration': flags.lockDuration,
    '--max-model-calls': flags.maxModelCalls,
  }
  refuseOneOf(ofQueues, (flag) => `${flag} only applies to a queue: it needs --redis.`)
  if (flags.groupSize !== undefined && flags.groupColumn === undefined) {
    throw invalid('--group-size needs --group-column, which names the groups.')
  }
  return 'trainer'
}
