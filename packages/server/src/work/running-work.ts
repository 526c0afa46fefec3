import { startTimer } from '@osmosis/core/http'

/** Accepted rollouts that have not ended; delivering their results is part of it. */
export class RunningWork {
  readonly #running = new Set<Promise<void>>()

  /** How many there are. */
  get count(): number {
    return this.#running.size
  }

  /** Starts `run`, which must not reject, and calls `onEnd` when it has ended. */
  start(run: () => Promise<void>, onEnd?: () => void): void {
    const end = (): void => {
      this.#running.delete(running)
      onEnd?.()
    }
    // Not `finally`, which holds several times as much memory while the work runs.
    const running = run().then(end, (error: unknown) => {
      end()
      throw error
    })
    this.#running.add(running)
  }

  /** Resolves when all running work has ended, including work that started meanwhile. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  /** Resolves when the work has ended, the time is over, or `signal` aborts. */
  async idleWithin(maxWaitMs: number, signal?: AbortSignal): Promise<void> {
    if (this.count === 0 || signal?.aborted) return
    const { promise: enough, resolve } = Promise.withResolvers<undefined>()
    const stop = (): void => resolve(undefined)
    const timer = startTimer(maxWaitMs, stop)
    signal?.addEventListener('abort', stop)
    try {
      await Promise.race([this.idle(), enough])
    } finally {
      timer.clear()
      signal?.removeEventListener('abort', stop)
    }
  }
}
