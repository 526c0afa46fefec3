import { OsmosisError } from '@osmosis/core'
import { Deadline } from './deadline.ts'
import type { RolloutRequest } from './execution-backend.ts'

/** How long a rollout has waited for its turn, elsewhere included. */
export class QueueClock {
  readonly #start: number
  #stop: number | undefined

  /** @param queuedSeconds - waited already */
  constructor(queuedSeconds = 0) {
    this.#start = performance.now() - queuedSeconds * 1000
  }

  stop(): void {
    this.#stop = performance.now()
  }

  get seconds(): number {
    return ((this.#stop ?? performance.now()) - this.#start) / 1000
  }
}

/**
 * The deadline of a workflow. What has been queued elsewhere is taken off.
 *
 * @param pausedBy - gives what an endpoint said to a model call that waits as it was asked to
 */
export function workflowDeadline(
  { rolloutId, agentTimeoutSeconds: limit, queuedSeconds = 0 }: RolloutRequest,
  clock: QueueClock,
  pausedBy?: () => OsmosisError | undefined,
): Deadline {
  const owner = { rolloutId, part: 'workflow' } as const
  return new Deadline(owner, limit === null ? null : limit - queuedSeconds, () => {
    const queued = clock.seconds
    const detail = queued >= 0.1 ? ` (${queued.toFixed(1)}s of it spent queued)` : ''
    const said = pausedBy?.()?.message
    const waiting =
      said === undefined ? '' : ` while a model call waited as it was asked to: ${said}`
    return new OsmosisError(
      'timeout',
      `workflow exceeded its ${limit}s deadline${detail}${waiting}`,
    )
  })
}

/** The deadline of a grader, which starts now. */
export function graderDeadline({
  rolloutId,
  graderTimeoutSeconds: limit,
}: Pick<RolloutRequest, 'rolloutId' | 'graderTimeoutSeconds'>): Deadline {
  return new Deadline(
    { rolloutId, part: 'grader' },
    limit,
    () => new OsmosisError('timeout', `grader exceeded its ${limit}s deadline`),
  )
}
