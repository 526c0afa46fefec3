import { startTimer } from '@osmosis/core/http'

/** The rollouts that were accepted and are not over, delivery of their results included. */
export class RunningWork {
  readonly #running = new Set<Promise<void>>()

  /** How many there are. */
  get count(): number {
    return this.#running.size
  }

  /** Begins `run`, which must not reject, and calls `onEnd` when it has ended. */
  start(run: () => Promise<void>, onEnd?: () => void): void {
    const end = (): void => {
      this.#running.delete(running)
      onEnd?.()
    }
    // Not `finally`, which holds several times as much for as long as the work takes.
    const running = run().then(end, (error: unknown) => {
      end()
      throw error
    })
    this.#running.add(running)
  }

  /** Resolves when all that are running now, and those they were joined by, are over. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  /** Resolves when the work is over, the time is up, or `signal` aborts. */
  async idleWithin(longestMs: number, signal?: AbortSignal): Promise<void> {
    if (this.count === 0 || signal?.aborted) return
    const { promise: enough, resolve } = Promise.withResolvers<undefined>()
    const stop = (): void => resolve(undefined)
    const timer = startTimer(longestMs, stop)
    signal?.addEventListener('abort', stop)
    try {
      await Promise.race([this.idle(), enough])
    } finally {
      timer.clear()
      signal?.removeEventListener('abort', stop)
    }
  }
}
