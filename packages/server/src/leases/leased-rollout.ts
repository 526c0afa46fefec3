import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

import { startTimer, type LongTimer } from '@osmosis/core/http'
import type { CancelDisposition, LeasedResultBody, RolloutStatus } from '@osmosis/core/wire'

/** How a leased rollout ended. */
export interface LeasedEnd {
  readonly status: 'success' | 'failure' | 'cancelled'
  readonly reward: number | null
  readonly errorMessage: string | null
  /** The result as it is answered, each time with the same bytes: JSON. */
  readonly json: string
}

/** What a leased rollout reports to those who keep it. */
export interface LeaseEvents {
  /** Nobody asked for the result in time. */
  readonly lapsed: () => void
  readonly ended: () => void
  /** The result was handed out. */
  readonly fetched: () => void
}

/**
 * A rollout whose result is fetched. Whoever holds its token keeps it going by asking for the
 * result; its end is decided once, and then published.
 */
export class LeasedRollout {
  readonly rolloutId: string
  readonly #tokenDigest: Buffer
  readonly #leaseMs: number
  readonly #events: LeaseEvents
  readonly #waiters = new Set<() => void>()
  #status: RolloutStatus = 'queued'
  /** The status that was answered last. */
  #told: RolloutStatus = 'queued'
  #heardAt = performance.now()
  #timer: LongTimer
  #decided = false
  #end: Omit<LeasedEnd, 'json'> | undefined
  #result: Uint8Array<ArrayBuffer> | undefined
  #fetchedAt: number | undefined
  #cancelled: Exclude<CancelDisposition, 'not_found'> | undefined

  constructor(rolloutId: string, token: string, leaseMs: number, events: LeaseEvents) {
    this.rolloutId = rolloutId
    this.#tokenDigest = sha256(token)
    this.#leaseMs = leaseMs
    this.#events = events
    this.#timer = startTimer(leaseMs, () => this.#lapseWhenDue())
  }

  get status(): RolloutStatus {
    return this.#status
  }

  /** Absent until the result is published. */
  get end(): Omit<LeasedEnd, 'json'> | undefined {
    return this.#end
  }

  /** Bytes of the result; 0 until it is published. */
  get size(): number {
    return this.#result?.byteLength ?? 0
  }

  /** Whether how it ends is known; the result may still have to be published. */
  get decided(): boolean {
    return this.#decided
  }

  /** What the first request to cancel it was answered. */
  get cancelled(): Exclude<CancelDisposition, 'not_found'> | undefined {
    return this.#cancelled
  }

  /** When the result was handed out for the first time, in the time of `performance.now()`. */
  get fetchedAt(): number | undefined {
    return this.#fetchedAt
  }

  /** Whether its holder was heard of within the time of a lease. */
  get held(): boolean {
    return performance.now() < this.#heardAt + this.#leaseMs
  }

  /** Takes equally long for every wrong token. */
  carries(token: string): boolean {
    return timingSafeEqual(sha256(token), this.#tokenDigest)
  }

  /**
   * Renews the lease, then waits until the status differs from the one that was answered last, the
   * time is up, or `signal` aborts. Resolves with the body of the answer: JSON.
   */
  async read(longestMs: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer> | string> {
    // Too late, although the timer has not fired.
    if (!this.held && !this.#decided) this.#events.lapsed()
    this.#heardAt = performance.now()
    await this.#change(longestMs, signal)
    if (signal.aborted) return ''
    this.#told = this.#status
    if (this.#result === undefined) return this.#progress()
    this.#fetchedAt ??= performance.now()
    this.#events.fetched()
    return this.#result
  }

  advance(phase: 'running' | 'grading'): void {
    if (this.#decided) return
    this.#status = phase
    this.#wake()
  }

  /** Makes what the caller is about to publish the end; false when another one was decided on. */
  decide(): boolean {
    if (this.#decided) return false
    this.#decided = true
    this.#timer.clear()
    return true
  }

  /** Publishes the end that was decided on. */
  publish({ json, status, reward, errorMessage }: LeasedEnd): void {
    this.#end = { status, reward, errorMessage }
    this.#result = new TextEncoder().encode(json)
    this.#status = status
    this.#events.ended()
    this.#wake()
  }

  /**
   * Answers every request to cancel it like the first one.
   *
   * @param stop - called by the first one; what the execution says of it, if anything, is the answer
   */
  cancel(stop: () => CancelDisposition): CancelDisposition {
    if (this.#cancelled !== undefined) return this.#cancelled
    if (this.#decided) return 'not_found'
    // Known before the execution is stopped: what that reports at once is a cancelled rollout.
    this.#cancelled = this.#status === 'queued' ? 'cancelled_queued' : 'cancelled_running'
    const stopped = stop()
    if (stopped !== 'not_found') this.#cancelled = stopped
    return this.#cancelled
  }

  async #change(longestMs: number, signal: AbortSignal): Promise<void> {
    if (this.#end !== undefined || this.#status !== this.#told || signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const wake = (): void => resolve(undefined)
    const timer = startTimer(longestMs, wake)
    this.#waiters.add(wake)
    signal.addEventListener('abort', wake, { once: true })
    try {
      await promise
    } finally {
      timer.clear()
      this.#waiters.delete(wake)
      signal.removeEventListener('abort', wake)
    }
  }

  #wake(): void {
    for (const wake of this.#waiters) wake()
  }

  #progress(): string {
    return JSON.stringify({
      rollout_id: this.rolloutId,
      status: this.#status,
      sample: null,
      err_message: null,
      err_category: null,
    } satisfies LeasedResultBody)
  }

  /** Renewing moves no timer: the one that fires looks how much of the lease is left. */
  #lapseWhenDue(): void {
    const leftMs = this.#heardAt + this.#leaseMs - performance.now()
    if (leftMs > 0) this.#timer = startTimer(leftMs, () => this.#lapseWhenDue())
    else this.#events.lapsed()
  }
}

/** A token that nobody can guess. */
export function newLeaseToken(): string {
  return randomBytes(32).toString('base64url')
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
