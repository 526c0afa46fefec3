import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

import { startTimer, type LongTimer } from '@osmosis/core/http'
import {
  cancelDispositions,
  leaseAfter,
  type leaseSteps,
  type LeaseState,
  type LifecycleState,
} from '@osmosis/runtime'
import type { CancelDisposition, LeasedResultBody } from '@osmosis/runtime/wire'

/** How a leased rollout ended. */
export interface LeasedEnd {
  readonly status: 'success' | 'failure' | 'cancelled'
  readonly reward: number | null
  readonly errorMessage: string | null
  /** The result as it is answered, each time with the same bytes: JSON. */
  readonly json: string
}

/** Where a lease is kept on disk. */
export interface LeaseRecord {
  /**
   * Resolves when the end survives the process, or with false when another process tells it. Never
   * rejects.
   */
  keepEnd(end: LeasedEnd): Promise<boolean>
  /** Resolves when the next process knows that it is being graded. Never rejects. */
  noteGrading(): Promise<void>
  /** Never rejects. */
  noteFetched(): Promise<void>
  /** Never rejects. */
  remove(): Promise<void>
}

/** What makes a lease. */
export interface LeaseIdentity {
  readonly rolloutId: string
  /** SHA-256 of the token, in base64. */
  readonly tokenDigest: string
  /** Undefined: it is kept in memory alone. */
  readonly record: LeaseRecord | undefined
}

/** What a leased rollout reports to those who keep it. */
export interface LeaseEvents {
  /** Nobody asked for the result in time. */
  readonly lapsed: () => void
  readonly ended: () => void
  /** The result was handed out for the first time. */
  readonly fetched: () => void
}

/**
 * A rollout whose result is fetched. Whoever holds its token keeps it going by asking for the
 * result; its end is decided once, and then published.
 */
export class LeasedRollout {
  readonly rolloutId: string
  /** Undefined: it is kept in memory alone. */
  readonly record: LeaseRecord | undefined
  readonly #tokenDigest: Buffer
  readonly #leaseMs: number
  readonly #events: LeaseEvents
  readonly #waiters = new Set<() => void>()
  #status: LifecycleState = 'queued'
  /** The status that was answered last. */
  #told: LifecycleState = 'queued'
  #heardAt = performance.now()
  #timer: LongTimer
  #state: LeaseState = 'open'
  /** What has to be on the disk before the end. */
  #noted: Promise<void> | undefined
  #end: Omit<LeasedEnd, 'json'> | undefined
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
    return this.#state !== 'open'
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
    return timingSafeEqual(Buffer.from(digestOfToken(token), 'base64'), this.#tokenDigest)
  }

  /**
   * Renews the lease, then waits until the status differs from the one that was answered last, the
   * time is up, or `signal` aborts. Resolves with the body of the answer: JSON.
   */
  async read(longestMs: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer> | string> {
    // Too late, although the timer has not fired.
    if (!this.held && !this.decided) this.#events.lapsed()
    this.#heardAt = performance.now()
    await this.#change(longestMs, signal)
    if (signal.aborted) return ''
    this.#told = this.#status
    if (this.#result === undefined) return this.#progress()
    this.noteFetched()
    return this.#result
  }

  /** With a record, that it is being graded is seen when it survives the process. */
  advance(phase: 'running' | 'grading'): void {
    if (this.decided) return
    if (phase === 'grading') this.#noted = this.record?.noteGrading()
    if (this.#noted === undefined) this.#show(phase)
    else this.#noted.then(() => this.#show(phase)).catch(() => {})
  }

  /** Makes what the caller is about to publish the end; false when another one was decided on. */
  decide(): boolean {
    if (!this.#step('decide')) return false
    this.#timer.clear()
    return true
  }

  /** Publishes the end that was decided on; with a record, as soon as that survives the process. */
  async publish(end: LeasedEnd): Promise<void> {
    if (this.record !== undefined) {
      await this.#noted
      if (!(await this.record.keepEnd(end))) return
    }
    this.#publish(end)
  }

  /** Takes up the end that an earlier process kept. */
  restore(end: LeasedEnd): void {
    if (this.decide()) this.#publish(end)
  }

  /** Notes that the result was handed out. */
  noteFetched(): void {
    if (!this.#step('fetch')) return
    this.#fetchedAt = performance.now()
    this.#events.fetched()
  }

  /**
   * Answers every request to cancel it like the first one.
   *
   * @param stop - called by the first one; what the execution says of it, if anything, is the answer
   */
  cancel(stop: () => CancelDisposition): CancelDisposition {
    if (this.#cancelled !== undefined) return this.#cancelled
    const answer = cancelDispositions[this.#status]
    if (this.decided || answer === 'not_found') return 'not_found'
    // Known before the execution is stopped: what that reports at once is a cancelled rollout.
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

  #publish({ json, status, reward, errorMessage }: LeasedEnd): void {
    if (!this.#step('publish')) return
    this.#end = { status, reward, errorMessage }
    this.#result = new TextEncoder().encode(json)
    this.#status = status
    this.#events.ended()
    this.#wake()
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

/** SHA-256 of a token, in base64: all that is kept of it. */
export function digestOfToken(token: string): string {
  return createHash('sha256').update(token).digest('base64')
}
