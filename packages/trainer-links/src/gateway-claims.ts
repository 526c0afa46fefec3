import { errorMessage, isOsmosisError } from '@osmosis/core'
import { wait } from '@osmosis/core/http'
import type { Logger } from '@osmosis/server'

import {
  finalStatus,
  gatewayRollout,
  gatewayRollouts,
  pathOf,
  patch,
  type GatewayRollout,
} from './gateway-rollout.ts'
import type { HeldRollout } from './gateway-watch.ts'
import { statusOf, type TrainerClient } from './trainer-client.ts'
import type { TrainerTask } from './trainer-link.ts'
import { WakeUp } from './wake-up.ts'

/** Rollouts that are known to wait are asked for again after this. Milliseconds. */
const stockMs = 2_000
/** How long one rollout is asked for, while others continue. Milliseconds. */
const claimMs = 60_000
/** For a last look at a gateway that does not answer, when the worker ends. Milliseconds. */
const lastLookMs = 10_000
/** More than one worker takes, so that several do not all want the same. */
const mostListed = 500

interface GatewayClaimsOptions {
  readonly client: TrainerClient
  /** Gets those of this worker, before they are claimed. */
  readonly held: Map<string, HeldRollout>
  /** Under which they are claimed. */
  readonly attempt: string
  /** Throws for a row that cannot be run. */
  readonly toTask: (held: HeldRollout) => TrainerTask
  readonly lookSeconds: number
  readonly logger: Logger
}

/** Takes rollouts that wait at the gateway, several at a time, beside any number of other workers. */
export class GatewayClaims {
  readonly #options: GatewayClaimsOptions
  /** Those that are known to wait. */
  #stock: GatewayRollout[] = []
  #lookedAt = Number.NEGATIVE_INFINITY
  readonly #claiming = new Set<Promise<void>>()
  readonly #ready: TrainerTask[] = []
  /** After which nothing is taken any more. */
  #failure: { readonly error: unknown } | undefined
  readonly #claimed = new WakeUp()

  constructor(options: GatewayClaimsOptions) {
    this.#options = options
  }

  /** As of `TrainerLink`. */
  async claim(free: number, signal: AbortSignal): Promise<readonly TrainerTask[]> {
    if (this.#ready.length === 0 && !this.#failure) {
      try {
        await this.#beginClaims(free - this.#claiming.size, signal)
        await this.#claimedOrLate(signal)
      } catch (error) {
        if (!signal.aborted) this.#failure = { error }
      }
    }
    // What is taken until then is handed out, so that it can be given back.
    if (signal.aborted || this.#failure) await Promise.all(this.#claiming)
    if (this.#failure && this.#ready.length === 0) throw this.#failure.error
    return this.#ready.splice(0)
  }

  /** Begins as many as wanted, of those that are known to wait; asks for them when none are. */
  async #beginClaims(wanted: number, signal: AbortSignal): Promise<void> {
    if (wanted <= 0) return
    const { lookSeconds } = this.#options
    const ageMs = performance.now() - this.#lookedAt
    const isDue = this.#stock.length === 0 ? ageMs >= lookSeconds * 1000 : ageMs > stockMs
    if (isDue) await this.#look(signal)
    for (let n = 0; n < wanted && this.#stock.length > 0; n += 1) {
      const [rollout] = this.#stock.splice(Math.floor(Math.random() * this.#stock.length), 1)
      if (rollout === undefined) return
      const claiming = this.#take(rollout, signal)
        .catch((error: unknown) => {
          this.#failure = { error }
        })
        .finally(() => {
          this.#claiming.delete(claiming)
          this.#claimed.now()
        })
      this.#claiming.add(claiming)
    }
  }

  /** Waits for a claim, but not for one that takes long: more may be wanted by then. */
  async #claimedOrLate(signal: AbortSignal): Promise<void> {
    if (this.#ready.length > 0) return
    const { lookSeconds } = this.#options
    const late = new AbortController()
    const isOver = AbortSignal.any([signal, late.signal])
    const waiting = wait(lookSeconds * 1000, isOver).catch(() => {})
    await (this.#claiming.size > 0 ? Promise.race([this.#claimed.next, waiting]) : waiting)
    late.abort()
  }

  async #look(signal: AbortSignal): Promise<void> {
    const path = `/api/rollouts?state_in=queuing&limit=${mostListed}`
    const onRetry = (error: unknown): void =>
      this.#options.logger.warn(
        { error: errorMessage(error) },
        'the gateway of Agent Lightning does not answer: the worker asks again',
      )
    const listed = gatewayRollouts(
      await this.#options.client.ask({ method: 'GET', path }, signal, onRetry),
    )
    this.#lookedAt = performance.now()
    this.#stock = listed.filter(
      ({ id, state }) => state === 'queuing' && !this.#options.held.has(id),
    )
  }

  /** Takes a rollout, unless somebody else has. */
  async #take(rollout: GatewayRollout, signal: AbortSignal): Promise<void> {
    const held: HeldRollout = {
      rollout,
      attempt: this.#options.attempt,
      tries: 0,
      claimedAt: performance.now(),
      withdrawn: Promise.withResolvers(),
    }
    // Before it is asked for: whoever watches must not take it for one that nobody runs.
    this.#options.held.set(rollout.id, held)
    try {
      if (!(await this.#claim(held, signal))) {
        this.#options.held.delete(rollout.id)
        return
      }
    } catch (error) {
      this.#options.held.delete(rollout.id)
      this.#log(error, rollout.id, 'a rollout could not be taken')
      return
    }
    try {
      this.#ready.push(this.#options.toTask(held))
    } catch (error) {
      await this.#refuse(held, errorMessage(error))
    }
  }

  /** Its row cannot be run, here or anywhere. */
  async #refuse({ rollout: { id }, attempt }: HeldRollout, message: string): Promise<void> {
    this.#options.logger.error({ rollout_id: id, error: message }, 'a row cannot be run')
    const end = { kind: 'failed', category: 'validation_error', message } as const
    try {
      await this.#options.client.tell(patch(id, finalStatus(end, attempt)))
    } catch (error) {
      this.#log(error, id, 'the gateway was not told of a row that cannot be run')
    } finally {
      this.#options.held.delete(id)
    }
  }

  /** What concerns one rollout ends nothing else; a wrong key does. */
  #log(error: unknown, id: string, message: string): void {
    if (isOsmosisError(error) && error.code === 'unauthorized') throw error
    this.#options.logger.error({ rollout_id: id, error: errorMessage(error) }, message)
  }

  async #claim({ rollout: { id }, attempt }: HeldRollout, signal: AbortSignal): Promise<boolean> {
    const request = patch(id, { state: 'running', last_attempt_id: attempt })
    let tries = 0
    try {
      const onRetry = (): void => {
        tries += 1
      }
      const patience = AbortSignal.any([signal, AbortSignal.timeout(claimMs)])
      await this.#options.client.ask(request, patience, onRetry)
      return true
    } catch (error) {
      const status = statusOf(error)
      if (tries === 0 && (status === 404 || status === 409)) return false
      if (isOsmosisError(error) && error.code === 'unauthorized') throw error
      return this.#isOurs(id, attempt, signal)
    }
  }

  /** A try to claim it whose answer was lost may have arrived. */
  async #isOurs(id: string, attempt: string, ending: AbortSignal): Promise<boolean> {
    const patience = AbortSignal.timeout(ending.aborted ? lastLookMs : 2 ** 31 - 1)
    try {
      const told = await this.#options.client.tell({ method: 'GET', path: pathOf(id) }, patience)
      const now = told === undefined ? undefined : gatewayRollout(told)
      return now?.state === 'running' && now.attempt === attempt
    } catch (error) {
      // Whatever worker is left gives it up when its time is over.
      if (patience.aborted) return false
      throw error
    }
  }
}
