import { OsmosisError } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import {
  type CancelDisposition,
  type RolloutStatus,
  cancelResponseSchema,
} from '@osmosis/protocol/wire'

import {
  sendInTime,
  brokenAnswer,
  readAnswer,
  type ServerConnection,
} from '../http/server-client.ts'
import { followResult, isTerminal, type Lease, type LeasedResult } from './lease.ts'

const cancelLimitMs = 5000

/** The phases of a rollout that callers can wait for. */
export type RolloutPhase = 'running' | 'grading' | 'completed'

/** A rollout that a server has admitted, followed until it ends. */
export interface RolloutHandle {
  readonly rolloutId: string
  /** The latest known status. */
  readonly status: RolloutStatus
  /** The latest answer of the server; null before the first. */
  readonly latestResult: LeasedResult | null
  /** Whether the rollout has ended, or is no longer followed. */
  readonly done: boolean
  /**
   * Resolves with the latest result once the rollout has reached the phase or a later one: phases may be
   * skipped, and `grading` also resolves at the end of a rollout that is not graded. A failed or cancelled
   * rollout is `completed`, not an error. `signal` ends only the waiting.
   *
   * @throws OsmosisError with code `unauthorized` or `protocol_error` when the result cannot be
   * fetched, `cancelled` after `stopFollowing` or when the client was closed; the reason of `signal`
   */
  waitFor(phase: RolloutPhase, options?: { readonly signal?: AbortSignal }): Promise<LeasedResult>
  /**
   * Asks the server to cancel the rollout. The request is sent once, without a retry. Resolves with what the server says of it:
   * `not_found` when the rollout has already ended, or the server does not know it. It may resolve before the rollout ends:
   * `waitFor('completed')` resolves with `cancelled` once the server has cleaned up, or with another end that came first.
   *
   * @throws OsmosisError with code `unauthorized`; `protocol_error`, also when there is no answer within 5 s; `cancelled` when
   * the client was closed; the reason of `signal`
   */
  cancelAtServer(options?: { readonly signal?: AbortSignal }): Promise<CancelDisposition>
  /**
   * Stops polling for the result. The server gets no message, and ends the rollout when the lease expires. Pending `waitFor`
   * calls reject with code `cancelled`. May be called several times.
   */
  stopFollowing(): void
}

/** Follows a rollout until it ends, or until `stop` is called. */
export class FollowedRollout implements RolloutHandle {
  readonly rolloutId: string
  /** Resolves when following has ended. Never rejects. */
  readonly over: Promise<void>
  readonly #connection: ServerConnection
  readonly #stopped = new AbortController()
  readonly #closed: AbortSignal
  #latest: LeasedResult | null = null
  #reached: number = rank.queued
  #failure: { readonly reason: unknown } | undefined
  /** Resolves, and is replaced, at each change. */
  #change = Promise.withResolvers<void>()

  /** @param closed - ends requests about the rollout; following ends only with {@link stop} */
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
      const { promise } = this.#change
      await (signal === undefined ? promise : untilAborted(signal, () => promise))
    }
  }

  async cancelAtServer({
    signal,
  }: { readonly signal?: AbortSignal } = {}): Promise<CancelDisposition> {
    const either = AbortSignal.any([this.#closed, ...(signal ? [signal] : [])])
    const request = { path: '/rollout/cancel', body: { ids: [this.rolloutId] } }
    const limits = { limitMs: cancelLimitMs, signal: either }
    const answer = await sendInTime(this.#connection, request, limits)
    const { dispositions } = readAnswer(request, answer, cancelResponseSchema)
    const disposition = dispositions[this.rolloutId]
    if (disposition !== undefined) return disposition
    throw brokenAnswer(request, answer, `has no disposition of ${this.rolloutId}`)
  }

  stopFollowing(): void {
    this.stop(`The rollout ${this.rolloutId} is no longer followed. The server was not notified.`)
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
    this.#change.resolve()
    this.#change = Promise.withResolvers<void>()
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
