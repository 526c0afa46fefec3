import { OsmosisError } from '@osmosis/core'
import { startTimer } from '@osmosis/core/http'

import type { CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { Leftovers, Outbox } from '../delivery/outbox.ts'
import type { Logger } from '../logging/logger.ts'
import type { RunningWork } from './running-work.ts'

/** The parts that start and end with a server. */
export interface LivingParts {
  readonly delivery: Pick<CallbackDelivery, 'close' | 'undelivered' | 'lost'>
  readonly outbox: Pick<Outbox, 'open' | 'close'> | undefined
  /** Continues with what earlier processes left in the outbox. */
  readonly resume: (left: Leftovers) => void
  /** Ends on its own, or soon after `endWork`. */
  readonly work: RunningWork
  /** Fails everything that is still running. */
  readonly endWork: () => void
  /** Waits until callers have fetched their results. */
  readonly settle?: ((maxWaitMs: number) => Promise<void>) | undefined
  readonly logger: Logger
}

/** How long the end may take. Seconds. */
export interface EndingTimes {
  /** For running work to end on its own. */
  readonly waitSeconds: number
  /** For delivering the results of work that was ended. */
  readonly graceSeconds: number
}

/** User code that runs at the start and the end of a server. */
export interface LifeHooks {
  /** Awaited before the first rollout is accepted; when it rejects, nothing is served. */
  onStartup?: (() => Promise<void> | void) | undefined
  /** Awaited when the last rollout has ended and its result is delivered. */
  onShutdown?: (() => Promise<void> | void) | undefined
}

/** After the delivery has closed, the remaining work only has to notice it. */
const lastWaitMs = 1000

/** The start and the end of a server. The end: accept no work, let running work finish, end the rest, deliver its results. */
export class ServerLife {
  readonly #parts: LivingParts
  readonly #times: EndingTimes
  readonly #hooks: LifeHooks
  readonly #ending: AbortController
  readonly #hurry = new AbortController()
  #opening: Promise<void> | undefined
  #starting: Promise<void> | undefined
  #started = false
  #ended: Promise<void> | undefined

  /** @param ending - is aborted when the end begins */
  constructor(parts: LivingParts, times: EndingTimes, hooks: LifeHooks, ending: AbortController) {
    this.#parts = parts
    this.#times = times
    this.#hooks = hooks
    this.#ending = ending
  }

  /** Opens the outbox and runs `onStartup`, once; a failed opening can be retried. */
  async start(): Promise<void> {
    if (this.#started) return
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    await this.#opening
    this.#starting ??= this.#startUp()
    await this.#starting
  }

  /** Ends once; later calls wait for the same end, and a call with less time shortens the wait. */
  async end(waitSeconds: number = this.#times.waitSeconds): Promise<void> {
    if (this.#ended === undefined) {
      this.#ending.abort(new OsmosisError('server_shutdown', 'the server shut down first'))
      this.#ended = this.#end(waitSeconds * 1000)
      return this.#ended
    }
    const timer = startTimer(waitSeconds * 1000, () => this.#hurry.abort())
    try {
      await this.#ended
    } finally {
      timer.clear()
    }
  }

  async #open(): Promise<void> {
    this.#ending.signal.throwIfAborted()
    const left = await this.#parts.outbox?.open()
    if (left !== undefined && !this.#ending.signal.aborted) this.#parts.resume(left)
  }

  async #startUp(): Promise<void> {
    await this.#hooks.onStartup?.()
    this.#started = true
  }

  async #end(waitMs: number): Promise<void> {
    const { endWork, settle, delivery, outbox, work, logger } = this.#parts
    const graceMs = this.#times.graceSeconds * 1000
    logger.info({ running: work.count }, 'draining: no new rollouts are admitted')
    await work.idleWithin(waitMs, this.#hurry.signal)
    if (work.count > 0) {
      logger.warn({ running: work.count }, 'ending the rollouts that are still running')
      endWork()
      await work.idleWithin(graceMs)
    }
    await settle?.(graceMs)
    await delivery.close()
    await work.idleWithin(lastWaitMs)
    // The next owner of the folder must find everything that this process stored.
    await this.#opening?.catch(() => undefined)
    await outbox?.close()
    const { undelivered, lost } = delivery
    logger.info({ undelivered, lost, running: work.count }, 'drained')
    // A server that never started has nothing to shut down; one that is starting has.
    await this.#starting?.catch(() => undefined)
    if (this.#started) await this.#hooks.onShutdown?.()
  }
}
