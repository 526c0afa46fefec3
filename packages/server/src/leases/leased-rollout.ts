import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

import { startTimer, type LongTimer } from '@osmosis/core/http'
import {
  cancelDispositions,
  leaseAfter,
  type leaseSteps,
  type LeaseState,
  type LifecycleState,
} from '@osmosis/protocol'
import type { CancelDisposition, LeasedResultBody } from '@osmosis/protocol/wire'

/** How a leased rollout ended. */
export interface LeaseOutcome {
  readonly status: 'success' | 'failure' | 'cancelled'
  readonly reward: number | null
  readonly errorMessage: string | null
  /** The result: JSON. Every answer has the same bytes. */
  readonly json: string
}

/** Stores a lease on disk. */
export interface LeaseRecord {
  /**
   * Resolves when the end survives the process, or with false when another process has taken over the
   * outbox. Never rejects.
   */
  storeEnd(end: LeaseOutcome): Promise<boolean>
  /**
   * Resolves when the next process will know that grading has started, or with false when another process has taken
   * over the outbox. Never rejects.
   */
  recordGrading(): Promise<boolean>
  /** Never rejects. */
  recordFetched(): Promise<void>
  /** Never rejects. */
  remove(): Promise<void>
}

/** What identifies a lease. */
export interface LeaseIdentity {
  readonly rolloutId: string
  /** SHA-256 of the token, in base64. */
  readonly tokenDigest: string
  /** Undefined: the lease is only in memory. */
  readonly record: LeaseRecord | undefined
}

/** Events of a leased rollout, for its registry. */
export interface LeaseEvents {
  /** No caller polled in time. */
  readonly lapsed: () => void
  readonly ended: () => void
  /** The result was fetched for the first time. */
  readonly fetched: () => void
}

/**
 * A rollout whose result is fetched. The holder of its token renews the lease by polling. Its end is
 * decided once, and then published.
 */
export class LeasedRollout {
  readonly rolloutId: string
  /** Undefined: the lease is only in memory. */
  readonly record: LeaseRecord | undefined
  readonly #tokenDigest: Buffer
  readonly #leaseMs: number
  readonly #events: LeaseEvents
  readonly #waiters = new Set<() => void>()
  #status: LifecycleState = 'queued'
  /** The status in the last answer. */
  #reported: LifecycleState = 'queued'
  #polledAt = performance.now()
  #timer: LongTimer
  #state: LeaseState = 'open'
  /** The write that must be durable before the end is stored. */
  #noted: Promise<boolean> | undefined
  #end: Omit<LeaseOutcome, 'json'> | undefined
  #result: Uint8Array<ArrayBuffer> | undefined
  #fetchedAt: number | undefined
  #cancelled: Exclude<CancelDisposition, 'not_found'> | undefined

  constructor(
    { rolloutId, tokenDigest, record }: LeaseIdentity,
    leaseMs: number,
    events: LeaseEvents,
  ) {
    this.rolloutId = rolloutId
    this.record = record
    this.#tokenDigest = Buffer.from(tokenDigest, 'base64')
    this.#leaseMs = leaseMs
    this.#events = events
    this.#timer = startTimer(leaseMs, () => this.#lapseWhenDue())
  }

  get status(): LifecycleState {
    return this.#status
  }

  /** Undefined until the result is published. */
  get end(): Omit<LeaseOutcome, 'json'> | undefined {
    return this.#end
  }

  /** Bytes of the result; 0 until it is published. */
  get size(): number {
    return this.#result?.byteLength ?? 0
  }

  /** Whether its end is decided; the result may still have to be published. */
  get decided(): boolean {
    return this.#state !== 'open'
  }

  /** The answer to the first cancel request. */
  get cancelled(): Exclude<CancelDisposition, 'not_found'> | undefined {
    return this.#cancelled
  }

  /** When the result was first fetched, as `performance.now()`. */
  get fetchedAt(): number | undefined {
    return this.#fetchedAt
  }

  /** Whether its holder polled within the lease time. */
  get held(): boolean {
    return performance.now() < this.#polledAt + this.#leaseMs
  }

  /** Takes equally long for every wrong token. */
  carries(token: string): boolean {
    return timingSafeEqual(Buffer.from(digestOfToken(token), 'base64'), this.#tokenDigest)
  }

  /**
   * Renews the lease, then waits until the status differs from the last answer, the time is over, or
   * `signal` aborts. Resolves with the body of the answer: JSON.
   */
  async read(maxWaitMs: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer> | string> {
    // The lease is over, although the timer has not fired.
    if (!this.held && !this.decided) this.#events.lapsed()
    this.#polledAt = performance.now()
    await this.#change(maxWaitMs, signal)
    if (signal.aborted) return ''
    this.#reported = this.#status
    if (this.#result === undefined) return this.#progress()
    this.recordFetched()
    return this.#result
  }

  /** Continues with the next phase. With a record, grading is visible when that survives the process. */
  advance(phase: 'running' | 'grading'): void {
    if (this.decided) return
    if (phase === 'grading') this.#noted = this.record?.recordGrading()
    if (this.#noted === undefined) this.#show(phase)
    else this.#noted.then((isOwn) => isOwn && this.#show(phase)).catch(() => {})
  }

  /** Reserves the end for the caller, which then publishes it; false when it is decided already. */
  decide(): boolean {
    if (!this.#step('decide')) return false
    this.#timer.clear()
    return true
  }

  /** Publishes the decided end; with a record, after storing it. */
  async publish(end: LeaseOutcome): Promise<void> {
    if (this.record !== undefined) {
      await this.#noted
      if (!(await this.record.storeEnd(end))) return
    }
    this.#publish(end)
  }

  /** Restores the end that an earlier process stored. */
  restore(end: LeaseOutcome): void {
    if (this.decide()) this.#publish(end)
  }

  /** Notes that the result was fetched. */
  recordFetched(): void {
    if (!this.#step('fetch')) return
    this.#fetchedAt = performance.now()
    this.#events.fetched()
  }

  /**
   * Cancels it once; later requests get the answer to the first one.
   *
   * @param stop - stops the execution; its disposition, unless not_found, is the answer
   */
  cancel(stop: () => CancelDisposition): CancelDisposition {
    if (this.#cancelled !== undefined) return this.#cancelled
    const answer = cancelDispositions[this.#status]
    if (this.decided || answer === 'not_found') return 'not_found'
    // Set before the execution stops, because that may report a cancelled rollout at once.
    this.#cancelled = answer
    const stopped = stop()
    if (stopped !== 'not_found') this.#cancelled = stopped
    return this.#cancelled
  }

  #show(phase: 'running' | 'grading'): void {
    if (this.decided) return
    this.#status = phase
    this.#wake()
  }

  #step(step: keyof typeof leaseSteps): boolean {
    const next = leaseAfter(this.#state, step)
    this.#state = next ?? this.#state
    return next !== undefined
  }

  #publish({ json, status, reward, errorMessage }: LeaseOutcome): void {
    if (!this.#step('publish')) return
    this.#end = { status, reward, errorMessage }
    this.#result = new TextEncoder().encode(json)
    this.#status = status
    this.#events.ended()
    this.#wake()
  }

  async #change(maxWaitMs: number, signal: AbortSignal): Promise<void> {
    if (this.#end !== undefined || this.#status !== this.#reported || signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const wake = (): void => resolve(undefined)
    const timer = startTimer(maxWaitMs, wake)
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

  /** Renewing does not restart the timer: when it fires, it is started again for the remaining time. */
  #lapseWhenDue(): void {
    const leftMs = this.#polledAt + this.#leaseMs - performance.now()
    if (leftMs > 0) this.#timer = startTimer(leftMs, () => this.#lapseWhenDue())
    else this.#events.lapsed()
  }
}

/** A token with 256 random bits. */
export function newLeaseToken(): string {
  return randomBytes(32).toString('base64url')
}

/** SHA-256 of a token, in base64. The token itself is not stored. */
export function digestOfToken(token: string): string {
  return createHash('sha256').update(token).digest('base64')
}
