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

/** The age after which the list of queued rollouts is fetched again. Milliseconds. */
const maxListAgeMs = 2_000
/** How long one rollout may take to be claimed. Milliseconds. */
const claimMs = 60_000
/** How long an ending worker waits for the gateway to confirm a claim. Milliseconds. */
const confirmationMs = 10_000
/** More than one worker claims, so that several workers choose different rollouts. */
const maxListed = 500

interface GatewayClaimsOptions {
  readonly client: TrainerClient
  /** The rollouts of this worker; one is added before it is claimed. */
  readonly held: Map<string, HeldRollout>
  /** The name of the attempt with which rollouts are claimed. */
  readonly attempt: string
  /** Throws for a row that cannot be executed. */
  readonly toTask: (held: HeldRollout) => TrainerTask
  /** The name of the group of a rollout; undefined for one without. */
  readonly groupOf: (rollout: GatewayRollout) => string | undefined
  readonly lookSeconds: number
  readonly logger: Logger
}

/** Claims queued rollouts of the gateway, several concurrently, in competition with other workers. */
export class GatewayClaims {
  readonly #options: GatewayClaimsOptions
  /** Rollouts that were queued when the list was fetched. */
  #queued: GatewayRollout[] = []
  /** The group whose attempts are claimed one after another, so that they run together. */
  #group: string | undefined
  #listedAt = Number.NEGATIVE_INFINITY
  readonly #claiming = new Set<Promise<void>>()
  readonly #ready: TrainerTask[] = []
  /** Set once claiming has failed; nothing is claimed after that. */
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
    // Rollouts claimed by then are returned, so that the worker can give them back.
    if (signal.aborted || this.#failure) await Promise.all(this.#claiming)
    if (this.#failure && this.#ready.length === 0) throw this.#failure.error
    return this.#ready.splice(0)
  }

  /** Starts as many claims as wanted; fetches the list of queued rollouts when it is empty or old. */
  async #beginClaims(wanted: number, signal: AbortSignal): Promise<void> {
    if (wanted <= 0) return
    const { lookSeconds } = this.#options
    const ageMs = performance.now() - this.#listedAt
    const isDue = this.#queued.length === 0 ? ageMs >= lookSeconds * 1000 : ageMs > maxListAgeMs
    if (isDue) await this.#list(signal)
    for (let n = 0; n < wanted && this.#queued.length > 0; n += 1) {
      const rollout = this.#choose()
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

  /** The next attempt of the group that was started, or any rollout. */
  #choose(): GatewayRollout | undefined {
    const { groupOf } = this.#options
    const group = this.#group
    const next =
      group === undefined ? -1 : this.#queued.findIndex((rollout) => groupOf(rollout) === group)
    const place = next === -1 ? Math.floor(Math.random() * this.#queued.length) : next
    const [rollout] = this.#queued.splice(place, 1)
    this.#group = rollout && groupOf(rollout)
    return rollout
  }

  /** Waits for a claim, but not longer than `lookSeconds`: the worker may have more room by then. */
  async #claimedOrLate(signal: AbortSignal): Promise<void> {
    if (this.#ready.length > 0) return
    const { lookSeconds } = this.#options
    const late = new AbortController()
    const isOver = AbortSignal.any([signal, late.signal])
    const waiting = wait(lookSeconds * 1000, isOver).catch(() => {})
    await (this.#claiming.size > 0 ? Promise.race([this.#claimed.next, waiting]) : waiting)
    late.abort()
  }

  async #list(signal: AbortSignal): Promise<void> {
    const path = `/api/rollouts?state_in=queuing&limit=${maxListed}`
    const onRetry = (error: unknown): void =>
      this.#options.logger.warn(
        { error: errorMessage(error) },
        'the gateway of Agent Lightning does not answer: the worker retries',
      )
    const listed = gatewayRollouts(
      await this.#options.client.fetch({ method: 'GET', path }, signal, onRetry),
    )
    this.#listedAt = performance.now()
    this.#queued = listed.filter(
      ({ id, state }) => state === 'queuing' && !this.#options.held.has(id),
    )
  }

  /** Claims a rollout, unless another worker has. */
  async #take(rollout: GatewayRollout, signal: AbortSignal): Promise<void> {
    const held: HeldRollout = {
      rollout,
      attempt: this.#options.attempt,
      tries: 0,
      claimedAt: performance.now(),
      withdrawn: Promise.withResolvers(),
    }
    // Before the request, so that the watch does not consider the rollout abandoned.
    this.#options.held.set(rollout.id, held)
    try {
      if (!(await this.#claim(held, signal))) {
        this.#options.held.delete(rollout.id)
        return
      }
    } catch (error) {
      this.#options.held.delete(rollout.id)
      this.#log(error, rollout.id, 'a rollout could not be claimed')
      return
    }
    try {
      this.#ready.push(this.#options.toTask(held))
    } catch (error) {
      await this.#refuse(held, errorMessage(error))
    }
  }

  /** Reports that no worker can execute this row. */
  async #refuse({ rollout: { id }, attempt }: HeldRollout, message: string): Promise<void> {
    this.#options.logger.error({ rollout_id: id, error: message }, 'a row cannot be executed')
    const end = { kind: 'failed', category: 'validation_error', message } as const
    try {
      await this.#options.client.report(patch(id, finalStatus(end, attempt)))
    } catch (error) {
      this.#log(error, id, 'a row that cannot be executed could not be reported to the gateway')
    } finally {
      this.#options.held.delete(id)
    }
  }

  /** An error of one rollout is logged; a wrong key ends the worker. */
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
      const limit = AbortSignal.any([signal, AbortSignal.timeout(claimMs)])
      await this.#options.client.fetch(request, limit, onRetry)
      return true
    } catch (error) {
      const status = statusOf(error)
      if (tries === 0 && (status === 404 || status === 409)) return false
      if (isOsmosisError(error) && error.code === 'unauthorized') throw error
      return this.#isOurs(id, attempt, signal)
    }
  }

  /** A claim whose answer was lost may have succeeded. */
  async #isOurs(id: string, attempt: string, ending: AbortSignal): Promise<boolean> {
    const limit = AbortSignal.timeout(ending.aborted ? confirmationMs : 2 ** 31 - 1)
    try {
      const found = await this.#options.client.report({ method: 'GET', path: pathOf(id) }, limit)
      const now = found === undefined ? undefined : gatewayRollout(found)
      return now?.state === 'running' && now.attempt === attempt
    } catch (error) {
      // Another worker ends the rollout as abandoned.
      if (limit.aborted) return false
      throw error
    }
  }
}
