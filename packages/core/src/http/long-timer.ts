import { setTimeout as sleep } from 'node:timers/promises'

/** Longest delay a timer of Node.js can hold, 24.8 days; longer ones fire at once. */
const longestTimerMs = 2 ** 31 - 1

/** A timer that has been started. */
export interface LongTimer {
  /** Stops it. Does nothing when it has fired or was stopped. */
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
      left <= longestTimerMs
        ? setTimeout(this.#fire, Math.ceil(left))
        : setTimeout(() => this.#arm(left - longestTimerMs), longestTimerMs)
  }
}

/**
 * `setTimeout` for waits of any length, `Infinity` (never) included. Milliseconds. Like
 * `setTimeout` it keeps the process alive.
 */
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
    for (let left = ms; left > 0; left -= longestTimerMs) {
      await sleep(Math.min(left, longestTimerMs), undefined, { signal })
    }
  } finally {
    // Timers reject with an error of their own.
    signal?.throwIfAborted()
  }
}
