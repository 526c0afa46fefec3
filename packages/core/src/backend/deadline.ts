import { setImmediate } from 'node:timers/promises'

import { inScope, type RolloutScope } from '../containment/rollout-scope.ts'
import type { OsmosisError } from '../errors.ts'
import { startTimer, type LongTimer } from '../http/long-timer.ts'
import { untilAborted } from '../http/until-aborted.ts'

/**
 * The time one phase of a rollout may take, and the scope of the user code that runs in it. Its
 * signal aborts when the time is up, when the rollout is cancelled or when its code harms the
 * process, whichever comes first.
 */
export class Deadline implements RolloutScope {
  readonly rolloutId: string
  readonly part: RolloutScope['part']
  readonly #controller = new AbortController()
  readonly #expiresAt: number
  readonly #expired: () => OsmosisError
  #timer: LongTimer | undefined
  #over = false

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
    this.rolloutId = owner.rolloutId
    this.part = owner.part
    this.#expired = expired
    const ms = seconds === null ? Number.POSITIVE_INFINITY : Math.max(seconds, 0) * 1000
    this.#expiresAt = performance.now() + ms
    if (ms === 0) this.abort(expired())
    else this.#timer = startTimer(ms, () => this.abort(expired()))
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Ends the phase early, with the reason that everything waiting for it will see. */
  abort(reason: OsmosisError): void {
    this.#timer?.clear()
    // Listeners of the signal are user code.
    inScope(this, () => this.#controller.abort(reason))
  }

  fail(error: OsmosisError): boolean {
    if (this.#over || this.signal.aborted) return false
    this.abort(error)
    return true
  }

  /**
   * Runs user code. Settles as soon as the phase ends, even if the code never does; code that
   * blocked the thread past the deadline and then returned is late as well.
   */
  async race<T>(start: () => Promise<T>): Promise<T> {
    return untilAborted(this.signal, async () => {
      const result = await inScope(this, start)
      // Node.js reports rejections that were left behind at the end of a turn.
      await setImmediate()
      this.throwIfLate()
      return result
    })
  }

  /** @throws OsmosisError of the deadline when the time is up, even if the timer has not fired */
  throwIfLate(): void {
    if (performance.now() > this.#expiresAt && !this.signal.aborted) this.abort(this.#expired())
    this.signal.throwIfAborted()
  }

  /** Stops the clock: the phase is over. */
  clear(): void {
    this.#over = true
    this.#timer?.clear()
  }
}
