import type { RolloutScope } from '../containment/rollout-scope.ts'
import { UserCode } from '../containment/user-code.ts'
import type { OsmosisError } from '@osmosis/core'
import { startTimer, type LongTimer } from '@osmosis/core/http'

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
   * @param seconds - time left; zero or less is already over, null is unbounded
   * @param expired - makes the error that the phase fails with when the time is up
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

  /** Stops the clock: the phase is over. */
  override clear(): void {
    super.clear()
    this.#timer?.clear()
  }
}
