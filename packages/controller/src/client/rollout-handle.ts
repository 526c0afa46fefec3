import { OsmosisError } from '@osmosis/core'
import {
  type CancelDisposition,
  type RolloutStatus,
  cancelResponseSchema,
} from '@osmosis/runtime/wire'
import { untilAborted } from '@osmosis/core/http'

import type { Lease } from './admission.ts'
import { followResult } from './follow-result.ts'
import { isTerminal, type LeasedResult } from './leased-result.ts'
import { askInTime, brokenAnswer, readAnswer, type ServerConnection } from './server-requests.ts'

const cancelLimitMs = 5000

/** How far a rollout has come, as those see it who wait for it. */
export type RolloutPhase = 'running' | 'grading' | 'completed'

/** A rollout that a server has admitted, followed until it ends. */
export interface RolloutHandle {
  readonly rolloutId: string
  /** The newest known. */
  readonly status: RolloutStatus
  /** The newest answer of the server; null before the first. */
  readonly latestResult: LeasedResult | null
  /** Whether nothing more will be learnt: the rollout has ended, or is not followed any longer. */
  readonly done: boolean
  /**
   * Resolves with the newest result once the rollout has come so far, or farther: phases may be
   * skipped, and `grading` also resolves with the end of a rollout that is not graded. A failed or
   * cancelled rollout is `completed`, not an error. `signal` ends the waiting alone.
   *
   * @throws OsmosisError with code `unauthorized` or `protocol_error` when the result cannot be
   * fetched, `cancelled` after `stopFollowing` or when the client was closed; the reason of `signal`
   */
  waitFor(phase: RolloutPhase, options?: { readonly signal?: AbortSignal }): Promise<LeasedResult>
  /**
   * Asks the server to cancel the rollout, once, within 5 s. Its result is still to come: `cancelled`,
   * once the server has cleaned up, or the end that was faster. `not_found` is what servers say of
   * rollouts that have ended.
   *
   * @throws OsmosisError with code `unauthorized` or `protocol_error`; the reason of `signal`
   */
  cancelAtServer(options?: { readonly signal?: AbortSignal }): Promise<CancelDisposition>
  /**
   * Stops asking for the result, here alone: the server is told nothing, and gives the rollout up
   * when its lease lapses. Whoever waits is rejected with code `cancelled`. Safe to call again.
   */
  stopFollowing(): void
}

/** Follows a rollout until it ends, or until `stop` is called. */
export class FollowedRollout implements RolloutHandle {
  readonly rolloutId: string
  /** Settles, never rejects, when the following is over. */
  readonly over: Promise<void>
  readonly #connection: ServerConnection
  readonly #stopped = new AbortController()
  readonly #closed: AbortSignal
  #latest: LeasedResult | null = null
  #reached: number = rank.queued
  #failure: { readonly reason: unknown } | undefined
  /** Resolves, and is replaced, with everything that happens. */
  #happening = Promise.withResolvers<void>()

  /** @param closed - ends requests about the rollout; following ends with {@link stop} alone */
  constructor(
    connection: ServerConnection,
    lease: Lease,
    { closed, onOver }: { closed: AbortSignal; onOver: () => void },
  ) {
    this.rolloutId = lease.rolloutId
    this.#connection = connection
    this.#closed = closed
    this.over = this.#follow(lease, onOver)
  }

  get status(): RolloutStatus {
    return this.#latest?.status ?? 'queued'
  }

  get latestResult(): LeasedResult | null {
    return this.#latest
  }

  get done(): boolean {
    return this.#failure !== undefined || isTerminal(this.status)
  }

  async waitFor(
    phase: RolloutPhase,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<LeasedResult> {
    for (;;) {
      signal?.throwIfAborted()
      if (this.#latest !== null && this.#reached >= rank[phase]) return this.#latest
      if (this.#failure !== undefined) throw this.#failure.reason
      const { promise } = this.#happening
      await (signal === undefined ? promise : untilAborted(signal, () => promise))
    }
  }

  async cancelAtServer({
    signal,
  }: { readonly signal?: AbortSignal } = {}): Promise<CancelDisposition> {
    const asking = AbortSignal.any([this.#closed, ...(signal ? [signal] : [])])
    const request = { path: '/rollout/cancel', body: { ids: [this.rolloutId] } }
    const limits = { limitMs: cancelLimitMs, signal: asking }
    const answer = await askInTime(this.#connection, request, limits)
    const { dispositions } = readAnswer(request, answer, cancelResponseSchema)
    const disposition = dispositions[this.rolloutId]
    if (disposition !== undefined) return disposition
    throw brokenAnswer(request, answer, `does not say what became of ${this.rolloutId}`)
  }

  stopFollowing(): void {
    this.stop(`The rollout ${this.rolloutId} is no longer followed; the server was not told.`)
  }

  /** Ends the following with code `cancelled` and this message. */
  stop(message: string): void {
    this.#stopped.abort(new OsmosisError('cancelled', message))
  }

  async #follow(lease: Lease, onOver: () => void): Promise<void> {
    const { signal } = this.#stopped
    const onResult = (result: LeasedResult): void => {
      this.#latest = result
      this.#reached = Math.max(this.#reached, rank[result.status])
      this.#wake()
    }
    try {
      await followResult(this.#connection, lease, { signal, onResult })
    } catch (reason) {
      this.#failure = { reason }
      this.#wake()
    } finally {
      onOver()
    }
  }

  #wake(): void {
    this.#happening.resolve()
    this.#happening = Promise.withResolvers<void>()
  }
}

const rank: Readonly<Record<RolloutStatus | RolloutPhase, number>> = {
  unknown: 0,
  queued: 0,
  running: 1,
  grading: 2,
  completed: 3,
  success: 3,
  failure: 3,
  cancelled: 3,
}
