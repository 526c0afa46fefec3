import type { OsmosisError } from '../errors.ts'

/** Longest delay a timer of Node.js can hold; longer ones fire at once. */
const longestTimerMs = 2 ** 31 - 1

/**
 * The time one phase of a rollout may take. Its signal aborts when the time is up or when the
 * rollout is cancelled, whichever comes first.
 */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #expiresAt: number
  readonly #expired: () => OsmosisError
  #timer: NodeJS.Timeout | undefined

  /**
   * @param seconds - time left; zero or less is already over, null is unbounded
   * @param expired - the error that says so
   */
  constructor(seconds: number | null, expired: () => OsmosisError) {
    this.#expired = expired
    this.#expiresAt =
      seconds === null ? Number.POSITIVE_INFINITY : performance.now() + Math.max(seconds, 0) * 1000
    this.#arm()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Ends the phase early, with the reason that everything waiting for it will see. */
  abort(reason: OsmosisError): void {
    clearTimeout(this.#timer)
    this.#controller.abort(reason)
  }

  /**
   * Runs user code. Settles as soon as the phase ends, even if the code never does; code that
   * blocked the thread past the deadline and then returned is late all the same.
   */
  async race<T>(start: () => Promise<T>): Promise<T> {
    const { signal } = this
    signal.throwIfAborted()
    const ended = Promise.withResolvers<never>()
    const onAbort = (): void => ended.reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      const result = await Promise.race([start(), ended.promise])
      this.throwIfLate()
      return result
    } catch (error) {
      // Whatever the code made of the abort, the deadline is why it ended.
      signal.throwIfAborted()
      throw error
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** @throws OsmosisError of the deadline when the time is up, even if the timer has not fired */
  throwIfLate(): void {
    if (performance.now() > this.#expiresAt && !this.signal.aborted) this.abort(this.#expired())
    this.signal.throwIfAborted()
  }

  /** Stops the clock. */
  clear(): void {
    clearTimeout(this.#timer)
  }

  #arm(): void {
    const left = this.#expiresAt - performance.now()
    if (left === Number.POSITIVE_INFINITY) return
    if (left <= 0) {
      this.abort(this.#expired())
      return
    }
    this.#timer = setTimeout(() => this.#arm(), Math.min(Math.ceil(left), longestTimerMs))
  }
}
