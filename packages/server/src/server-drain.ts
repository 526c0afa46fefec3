import type { ExecutionBackend } from '@osmosis/core'

import type { CallbackDelivery } from './callback-delivery.ts'
import type { Logger } from './logger.ts'

/** Work that a drain waits for. */
export interface DrainedWork {
  /** How much there is. */
  readonly count: number
  /** Resolves when there is none. */
  idle(): Promise<void>
}

/** What a drain waits for and ends. */
export interface DrainedParts {
  readonly backend: Pick<ExecutionBackend, 'shutdown'>
  readonly delivery: Pick<CallbackDelivery, 'close' | 'undelivered'>
  /** The work that is going on: it ends by itself, or soon after `backend.shutdown()`. */
  readonly work: DrainedWork
  readonly logger: Logger
}

/** How long a drain may take. Seconds. */
export interface DrainTimes {
  /** For running work to end by itself. */
  readonly waitSeconds: number
  /** For the callbacks of what was ended. */
  readonly graceSeconds: number
}

/** After the delivery was closed, all that is left is to notice it. */
const lastWaitMs = 1000

/** The one way out of a server: let work finish, end the rest, deliver what is to say about it. */
export class ServerDrain {
  readonly #parts: DrainedParts
  readonly #times: DrainTimes
  readonly #hurry = new AbortController()
  #done: Promise<void> | undefined

  constructor(parts: DrainedParts, times: DrainTimes) {
    this.#parts = parts
    this.#times = times
  }

  /** Whether new work has to be turned away. */
  get started(): boolean {
    return this.#done !== undefined
  }

  /** Drains once; later calls wait for the same end, and one with less time cuts the wait short. */
  async drain(waitSeconds: number = this.#times.waitSeconds): Promise<void> {
    if (this.#done === undefined) {
      this.#done = this.#drain(waitSeconds * 1000)
      return this.#done
    }
    const timer = setTimeout(() => this.#hurry.abort(), waitSeconds * 1000)
    try {
      await this.#done
    } finally {
      clearTimeout(timer)
    }
  }

  async #drain(waitMs: number): Promise<void> {
    const { backend, delivery, work, logger } = this.#parts
    logger.info({ running: work.count }, 'draining: no new rollouts are admitted')
    await endOf(work, waitMs, this.#hurry.signal)
    if (work.count > 0) {
      logger.warn({ running: work.count }, 'ending the rollouts that are still running')
      backend.shutdown()
      await endOf(work, this.#times.graceSeconds * 1000)
    }
    await delivery.close()
    await endOf(work, lastWaitMs)
    logger.info({ undelivered: delivery.undelivered, running: work.count }, 'drained')
  }
}

/** Resolves when the work is over, the time is up, or `hurry` aborts. */
async function endOf(work: DrainedWork, longestMs: number, hurry?: AbortSignal): Promise<void> {
  const { promise: enough, resolve } = Promise.withResolvers<undefined>()
  const stop = (): void => resolve(undefined)
  const timer = setTimeout(stop, longestMs)
  hurry?.addEventListener('abort', stop)
  try {
    await Promise.race([work.idle(), enough])
  } finally {
    clearTimeout(timer)
    hurry?.removeEventListener('abort', stop)
  }
}
