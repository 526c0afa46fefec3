import { OsmosisError } from '@osmosis/core'
import { startTimer } from '@osmosis/core/http'

import { RunningWork } from '../work/running-work.ts'
import { LeasedRollout, type LeaseOutcome, type LeaseIdentity } from './leased-rollout.ts'

/** How results are stored for callers that fetch them. */
export interface LeaseOptions {
  /** Longest wait of a request for a result. Seconds; default 30. */
  waitSeconds?: number | undefined
  /**
   * A rollout ends when no caller polls for its result during this time. Seconds, more than
   * `waitSeconds`; default 120.
   */
  leaseSeconds?: number | undefined
  /** How long a result is stored after the end. Seconds; default 900. */
  retentionSeconds?: number | undefined
  /**
   * Maximum number of rollouts, running and ended ones; default 10 000. At the limit, results that were
   * fetched at least one lease ago are removed; if there are none, no rollout is accepted.
   */
  maxRetained?: number | undefined
  /** Maximum bytes of stored results, with the same rule. Default 1 GiB. */
  maxRetainedBytes?: number | undefined
}

/** An end that an earlier process stored. */
export interface RestoredEnd extends LeaseOutcome {
  /** Milliseconds since 1970. */
  readonly at: number
}

/** Longest delay of a timer in Node.js. */
const maxTimerMs = 2 ** 31 - 1

/** The leased rollouts of a server: those in progress, and the results of ended ones. */
export class LeaseRegistry {
  readonly waitSeconds: number
  readonly leaseSeconds: number
  readonly #retentionMs: number
  readonly #maxCount: number
  readonly #maxBytes: number
  readonly #rollouts = new Map<string, LeasedRollout>()
  readonly #writes = new RunningWork()
  /** When each result is removed, in the order of their ends. */
  readonly #expiries = new Map<LeasedRollout, number>()
  #bytes = 0
  #sweep: NodeJS.Timeout | undefined
  #closed = false
  #onFetched: (() => void) | undefined

  /** @throws OsmosisError with code `invalid_config` */
  constructor(options: LeaseOptions = {}) {
    const settings = leaseSettings(options)
    this.waitSeconds = settings.waitSeconds
    this.leaseSeconds = settings.leaseSeconds
    this.#retentionMs = settings.retentionSeconds * 1000
    this.#maxCount = settings.maxRetained
    this.#maxBytes = settings.maxRetainedBytes
  }

  /** Number of stored results. */
  get retainedCount(): number {
    return this.#expiries.size
  }

  /** Their size. */
  get retainedBytes(): number {
    return this.#bytes
  }

  get(rolloutId: string): LeasedRollout | undefined {
    return this.#rollouts.get(rolloutId)
  }

  /** Those whose end is not decided, and those being cancelled. */
  get live(): LeasedRollout[] {
    return [...this.#rollouts.values()].filter(({ end }) => end === undefined)
  }

  /** Starts a lease. */
  begin(identity: LeaseIdentity, lapsed: (rollout: LeasedRollout) => void): LeasedRollout {
    return this.#add(identity, 0, lapsed)
  }

  /**
   * Restores a result that an earlier process stored. Call it in the order of the ends, and before
   * `begin`.
   *
   * @returns false when its retention time is over
   */
  restore(identity: LeaseIdentity, { at, ...end }: RestoredEnd, fetched: boolean): boolean {
    const ageMs = Math.max(Date.now() - at, 0)
    if (ageMs >= this.#retentionMs) return false
    const rollout = this.#add(identity, ageMs, () => undefined)
    rollout.restore(end)
    if (fetched) rollout.recordFetched()
    return true
  }

  /** Whether there is room for one more rollout; removes a fetched result if necessary. */
  makeRoom(): boolean {
    if (this.#hasRoom()) return true
    // A recent answer may have been lost: its caller may request the result again.
    const before = performance.now() - this.leaseSeconds * 1000
    for (const rollout of this.#expiries.keys()) {
      if ((rollout.fetchedAt ?? Number.POSITIVE_INFINITY) > before) continue
      this.#forget(rollout)
      if (this.#hasRoom()) return true
    }
    return false
  }

  /**
   * Waits until callers that still poll have fetched their results, then stops the timers.
   *
   * @param maxMs - longest wait
   */
  async close(maxMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const check = (): void => {
      const results = [...this.#expiries.keys()]
      if (results.every(({ held, fetchedAt }) => !held || fetchedAt !== undefined)) {
        resolve(undefined)
      }
    }
    const timer = startTimer(maxMs, () => resolve(undefined))
    this.#onFetched = check
    check()
    await promise
    timer.clear()
    this.#onFetched = undefined
    this.#closed = true
    clearTimeout(this.#sweep)
  }

  #add(
    identity: LeaseIdentity,
    ageMs: number,
    lapsed: (rollout: LeasedRollout) => void,
  ): LeasedRollout {
    const { record } = identity
    const rollout = new LeasedRollout(identity, this.leaseSeconds * 1000, {
      lapsed: () => lapsed(rollout),
      ended: () => this.#retain(rollout, this.#retentionMs - ageMs),
      fetched: () => {
        if (record !== undefined) this.#writes.start(async () => record.recordFetched())
        this.#onFetched?.()
      },
    })
    this.#rollouts.set(identity.rolloutId, rollout)
    return rollout
  }

  #hasRoom(): boolean {
    return this.#rollouts.size < this.#maxCount && this.#bytes < this.#maxBytes
  }

  #retain(rollout: LeasedRollout, ms: number): void {
    this.#bytes += rollout.size
    this.#expiries.set(rollout, performance.now() + ms)
    this.#arm(ms)
  }

  /** One timer for all results: they are removed in the order of their ends. */
  #arm(ms: number): void {
    if (this.#closed || this.#sweep !== undefined) return
    this.#sweep = setTimeout(() => this.#forgetExpired(), Math.min(Math.ceil(ms), maxTimerMs))
    this.#sweep.unref()
  }

  #forgetExpired(): void {
    this.#sweep = undefined
    const now = performance.now()
    for (const [rollout, expiresAt] of this.#expiries) {
      if (expiresAt > now) {
        this.#arm(expiresAt - now)
        return
      }
      this.#forget(rollout)
    }
  }

  #forget(rollout: LeasedRollout): void {
    this.#expiries.delete(rollout)
    this.#rollouts.delete(rollout.rolloutId)
    this.#bytes -= rollout.size
    const { record } = rollout
    if (record !== undefined) this.#writes.start(async () => record.remove())
  }
}

/** Lease options with defaults. */
export type LeaseSettings = Required<{ [K in keyof LeaseOptions]: number }>

/** @throws OsmosisError with code `invalid_config` */
export function leaseSettings(options: LeaseOptions = {}): LeaseSettings {
  const settings = {
    waitSeconds: options.waitSeconds ?? 30,
    leaseSeconds: options.leaseSeconds ?? 120,
    retentionSeconds: options.retentionSeconds ?? 900,
    maxRetained: options.maxRetained ?? 10_000,
    maxRetainedBytes: options.maxRetainedBytes ?? 2 ** 30,
  }
  assertPositive(settings)
  const { waitSeconds, leaseSeconds } = settings
  if (leaseSeconds > waitSeconds) return settings
  throw new OsmosisError(
    'invalid_config',
    `leases.leaseSeconds (${leaseSeconds}) must be more than leases.waitSeconds (${waitSeconds}). Otherwise a waiting caller loses its lease.`,
  )
}

function assertPositive(options: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(options)) {
    if (Number.isFinite(value) && value > 0) continue
    throw new OsmosisError(
      'invalid_config',
      `leases.${name} must be a finite number above 0, got ${String(value)}.`,
    )
  }
}
