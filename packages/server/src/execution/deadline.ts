import { OsmosisError } from '@osmosis/core'
import { startTimer, type LongTimer } from '@osmosis/core/http'
import type { RolloutRequest } from '@osmosis/protocol'

import { UserCode, type RolloutScope } from '../containment/user-code.ts'

/**
 * The user code of one phase of a rollout, and the time it may take. Its signal aborts when the time
 * is up, when the rollout is cancelled or when the code harms the process, whichever comes first.
 */
export class Deadline extends UserCode {
  readonly #expiresAt: number
  readonly #expired: () => OsmosisError
  #timer: LongTimer | undefined

  /**
   * @param owner - whose code runs
   * @param seconds - time left; zero or less has already expired, null is unbounded
   * @param expired - creates the error that the phase fails with when the time is up
   */
  constructor(
    owner: Pick<RolloutScope, 'rolloutId' | 'part'>,
    seconds: number | null,
    expired: () => OsmosisError,
  ) {
    super(owner)
    this.#expired = expired
    const ms = seconds === null ? Number.POSITIVE_INFINITY : Math.max(seconds, 0) * 1000
    this.#expiresAt = performance.now() + ms
    if (ms === 0) this.abort(expired())
    else if (seconds !== null) this.#timer = startTimer(ms, () => this.abort(expired()))
  }

  override abort(reason: OsmosisError): void {
    this.#timer?.clear()
    super.abort(reason)
  }

  /**
   * Code that blocked the thread past the deadline and then returned is late as well.
   *
   * @throws OsmosisError of the deadline when the time is up, even if the timer has not fired
   */
  override throwIfLate(): void {
    if (performance.now() > this.#expiresAt && !this.signal.aborted) this.abort(this.#expired())
    this.signal.throwIfAborted()
  }

  /** Stops the clock: the phase has ended. */
  override clear(): void {
    super.clear()
    this.#timer?.clear()
  }
}

/** How long a rollout has been queued, including the time in other queues. */
export class QueueClock {
  readonly #start: number
  #stop: number | undefined

  /** @param queuedSeconds - the time that it has already been queued */
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
 * The deadline of a workflow, less the time that the rollout was queued elsewhere.
 *
 * @param pausedBy - returns the answer of the endpoint that made a model call wait before its next try
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
    const answer = pausedBy?.()?.message
    const waiting =
      answer === undefined ? '' : ` while a model call waited for the policy: ${answer}`
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
