import { planRunner, type RunnerPlan } from '../child/runner-plan.ts'
import type { Given } from '../command/flags.ts'
import { invalid, refuseOneOf } from '../command/wrong-use.ts'
import type { WorkerFlags } from './worker.ts'

/** What `osmosis worker` runs, and how. */
export interface WorkerPlan extends RunnerPlan {
  /** Port for health and metrics; undefined: none. */
  readonly port: number | undefined
  readonly host: string
  readonly source: QueueSource | LightningSource
}

/** Servers of a queue accept the rollouts. */
export interface QueueSource extends Given<WorkerFlags, 'lockDuration' | 'maxModelCalls'> {
  readonly kind: 'queue'
  readonly redis: string
}

/** A gateway of Agent Lightning assigns the rollouts. */
export interface LightningSource extends Given<
  WorkerFlags,
  'reward' | 'groupColumn' | 'groupSize' | 'rows'
> {
  readonly kind: 'agent-lightning'
  readonly url: string
}

/**
 * Makes the plan of `osmosis worker`.
 *
 * @throws OsmosisError with code `invalid_config` unless one source of rollouts is named, and for flags that do not fit together
 */
export function planWorker(entrypoint: string, flags: WorkerFlags): WorkerPlan {
  const source = sourceOf(flags)
  const { port, host, concurrency: maxConcurrent } = flags
  return { ...planRunner(entrypoint, flags), maxConcurrent, port, host, source }
}

function sourceOf(flags: WorkerFlags): QueueSource | LightningSource {
  const { redis, agentLightning: url, lockDuration, maxModelCalls } = flags
  const { reward, groupColumn, groupSize, rows } = flags
  if (redis !== undefined && url !== undefined) {
    throw invalid(
      '--redis and --agent-lightning exclude each other: a worker has one source of rollouts.',
    )
  }
  if (redis !== undefined) {
    refuseOneOf(
      {
        '--reward': reward,
        '--group-column': groupColumn,
        '--group-size': groupSize,
        '--rows': rows,
      },
      (flag) => `${flag} only applies to a trainer: with a queue its servers decide this.`,
    )
    return { kind: 'queue', redis, lockDuration, maxModelCalls }
  }
  if (url === undefined) {
    throw invalid(
      'Name one source of rollouts for the worker: --redis <url> or --agent-lightning <url>.',
    )
  }
  refuseOneOf(
    { '--lock-duration': lockDuration, '--max-model-calls': maxModelCalls },
    (flag) => `${flag} only applies to a queue: it needs --redis.`,
  )
  if (groupSize !== undefined && groupColumn === undefined) {
    throw invalid('--group-size needs --group-column, which names the groups.')
  }
  return { kind: 'agent-lightning', url, reward, groupColumn, groupSize, rows }
}
