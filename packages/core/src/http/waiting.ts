import { setTimeout as sleep } from 'node:timers/promises'

/** Longest delay of a timer of Node.js, 24.8 days; timers with a longer one fire at once. */
const maxTimerMs = 2 ** 31 - 1

/** A timer that has been started. */
export interface LongTimer {
  /** Stops it. Has no effect when it has fired or was stopped. */
  clear(): void
}

class StartedTimer implements LongTimer {
  readonly #fire: () => void
  #timer: NodeJS.Timeout | undefined

  constructor(ms: number, fire: () => void) {
    this.#fire = fire
    this.#arm(ms)
  }

  clear(): void {
    clearTimeout(this.#timer)
  }

  #arm(left: number): void {
    if (left === Number.POSITIVE_INFINITY) return
    this.#timer =
      left <= maxTimerMs
        ? setTimeout(this.#fire, Math.ceil(left))
        : setTimeout(() => this.#arm(left - maxTimerMs), maxTimerMs)
  }
}

/**
 * `AbortSignal.timeout` for any time, which refuses fractions and what is longer than 49 days. After 24.8 days it aborts in any
 * case. Milliseconds.
 */
export function timeLimit(ms: number): AbortSignal {
  return AbortSignal.timeout(Math.min(Math.ceil(Math.max(ms, 0)), maxTimerMs))
}

/** `setTimeout` for any delay, also `Infinity` (never). Milliseconds. It keeps the process alive, too. */
export function startTimer(ms: number, fire: () => void): LongTimer {
  return new StartedTimer(ms, fire)
}

/**
 * Waits, for any length of time. Milliseconds.
 *
 * @throws the reason of `signal` as soon as that aborts
 */
export async function wait(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    for (let left = ms; left > 0; left -= maxTimerMs) {
      await sleep(Math.min(left, maxTimerMs), undefined, { signal })
    }
  } finally {
    // Replaces the AbortError of the timer.
    signal?.throwIfAborted()
  }
}

/**
 * Settles with `work`, or with the reason of `signal` as soon as that aborts, even if the work never
 * settles. Work is not started when the signal is already aborted. An error of the work after the abort
 * is replaced by the reason of the signal.
 *
 * @param clock - called once the work has succeeded; what it throws is the result instead
 */
export function untilAborted<T>(
  signal: AbortSignal,
  work: () => Promise<T>,
  clock?: { throwIfLate(): void },
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    signal.throwIfAborted()
    const onAbort = (): void => reject(signal.reason as Error)
    const fail = (error: unknown): void => {
      signal.removeEventListener('abort', onAbort)
      reject((signal.aborted ? signal.reason : error) as Error)
    }
    const succeed = (value: T): void => {
      try {
        clock?.throwIfLate()
      } catch (error) {
        fail(error)
        return
      }
      signal.removeEventListener('abort', onAbort)
      resolve(value)
    }
    // Once, for work that never settles.
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      work().then(succeed, fail)
    } catch (error) {
      fail(error)
    }
  })
}

/**
 * Runs `work` with a signal that aborts after `limitMs` or with `outer`, whichever comes first. Removes
 * its timer and listener afterwards.
 *
 * @throws the reason of `outer`, or what `late` returns when the time is up
 */
export async function withTimeLimit<T>(
  { limitMs, outer, late }: { limitMs: number; outer: AbortSignal; late: () => Error },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  outer.throwIfAborted()
  const attempt = new AbortController()
  const onAbort = (): void => attempt.abort(outer.reason)
  const timer = startTimer(limitMs, () => attempt.abort(late()))
  outer.addEventListener('abort', onAbort, { once: true })
  try {
    return await work(attempt.signal)
  } catch (error) {
    attempt.signal.throwIfAborted()
    throw error
  } finally {
    timer.clear()
    outer.removeEventListener('abort', onAbort)
  }
}
