import { timingSafeEqual } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import { startTimer } from '@osmosis/core/http'
import { isEnded } from '@osmosis/protocol'
import type { LeasedResultBody } from '@osmosis/protocol/wire'
import type { Logger } from '@osmosis/server'
import {
  digestOfToken,
  HttpRefusal,
  type LeaseResults,
  type LeaseReader,
  toLeasedEnd,
  type LeaseSettings,
} from '@osmosis/server/protocols'

import { retryUntil } from '../connection/queue-retries.ts'
import type { RolloutQueue } from '../queue/rollout-queue.ts'
import type { RolloutRecord } from '../records/rollout-record.ts'
import { reached } from './queue-admission.ts'

/** Dependencies of lease results. */
export interface ResultParts {
  readonly queue: RolloutQueue
  readonly leases: LeaseSettings
}

/**
 * Serves the results of leased rollouts on any server. A holder gives up at the first refusal, so a request
 * waits while Redis is unreachable, as it waits for a new status.
 */
export class QueueResults implements LeaseResults {
  readonly #parts: ResultParts
  readonly #closing = new AbortController()

  constructor(parts: ResultParts) {
    this.#parts = parts
  }

  get waitSeconds(): number {
    return this.#parts.leases.waitSeconds
  }

  async find(rolloutId: string): Promise<LeaseReader | undefined> {
    const since = performance.now()
    const limit = new AbortController()
    const timer = startTimer(this.waitSeconds * 1000, () => limit.abort())
    try {
      const signal = AbortSignal.any([limit.signal, this.#closing.signal])
      const record = await reached(async () =>
        retryUntil(signal, async () => this.#parts.queue.record(rolloutId)),
      )
      if (record?.tokenDigest === undefined) return undefined
      return new HeldLease(record, since, this.#parts, this.#closing.signal)
    } finally {
      timer.clear()
    }
  }

  /** Answers all waiting requests. */
  close(): void {
    this.#closing.abort()
  }
}

/** A request for the result of a lease. */
class HeldLease implements LeaseReader {
  readonly #record: RolloutRecord
  readonly #since: number
  readonly #parts: ResultParts
  readonly #closing: AbortSignal

  constructor(record: RolloutRecord, since: number, parts: ResultParts, closing: AbortSignal) {
    this.#record = record
    this.#since = since
    this.#parts = parts
    this.#closing = closing
  }

  carries(token: string): boolean {
    const digest = Buffer.from(this.#record.tokenDigest ?? '', 'base64')
    const carried = Buffer.from(digestOfToken(token), 'base64')
    return digest.length === carried.length && timingSafeEqual(carried, digest)
  }

  async read(longestMs: number, signal: AbortSignal): Promise<string> {
    const limit = new AbortController()
    const leftMs = longestMs - (performance.now() - this.#since)
    const timer = startTimer(Math.max(leftMs, 0), () => limit.abort())
    const enough = AbortSignal.any([signal, limit.signal, this.#closing])
    try {
      return await reached(async () => retryUntil(enough, async () => this.#nextAnswer(enough)))
    } finally {
      timer.clear()
    }
  }

  /** Renews the lease, and waits for a status other than the last one that the holder received. */
  async #nextAnswer(enough: AbortSignal): Promise<string> {
    const { queue } = this.#parts
    const { id, endedAt } = this.#record
    await queue.leases.renew(id)
    // Before the loop, which may read no record when the time is up.
    if (endedAt !== undefined) return this.#result()
    const last = await queue.leases.lastAnswer(id)
    let status = last
    for await (const record of untilAborted(queue, id, enough)) {
      if (record.endedAt !== undefined) return this.#result()
      // An ended rollout is reported once its result can be fetched.
      status = isEnded(record.status) ? last : record.status
      if (status !== last) break
    }
    if (status !== last) await queue.leases.noteAnswer(id, status)
    return JSON.stringify({
      rollout_id: id,
      status: status as LeasedResultBody['status'],
      sample: null,
      err_message: null,
      err_category: null,
    } satisfies LeasedResultBody)
  }

  async #result(): Promise<string> {
    const { queue } = this.#parts
    const { id } = this.#record
    return queue.records.replicated(async () => {
      const end = await queue.leases.endOf(id)
      // The record has expired since it was found.
      if (end === undefined) throw new HttpRefusal(404, 'unknown rollout_id')
      await queue.leases.noteFetched(id)
      return end.json
    })
  }
}

async function* untilAborted(
  queue: RolloutQueue,
  id: string,
  signal: AbortSignal,
): AsyncGenerator<RolloutRecord, void> {
  try {
    yield* queue.watch(id, signal)
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** Dependencies of a lease keeper. */
interface KeeperParts {
  readonly queue: RolloutQueue
  readonly leases: LeaseSettings
  readonly logger: Logger
}

/** Time between two checks for expired leases. Milliseconds. */
const everyMs = 500

/** Ends all rollouts with expired leases, on any server. */
export class LeaseKeeper {
  readonly #parts: KeeperParts
  #timer: NodeJS.Timeout | undefined
  #sweeping = false
  #lapsed = 0
  /** No lease ends earlier, because none could be renewed while Redis was unreachable. */
  #notBefore = 0

  constructor(parts: KeeperParts) {
    this.#parts = parts
  }

  /** Number of rollouts that this server has ended. */
  get lapsedCount(): number {
    return this.#lapsed
  }

  start(): void {
    this.#timer = setInterval(() => void this.#sweep(), everyMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #sweep(): Promise<void> {
    if (this.#sweeping) return
    this.#sweeping = true
    try {
      const lapsed = await this.#parts.queue.lapsedLeases()
      if (performance.now() < this.#notBefore) return
      for (const rolloutId of lapsed) await this.#lapse(rolloutId)
    } catch {
      this.#notBefore = performance.now() + this.#parts.leases.leaseSeconds * 1000
    } finally {
      this.#sweeping = false
    }
  }

  async #lapse(rolloutId: string): Promise<void> {
    const { queue, leases, logger } = this.#parts
    const message = 'polling lease expired'
    const { warning: _, ...end } = toLeasedEnd(rolloutId, {
      status: 'failure',
      failure: { message, category: 'lease_expired' },
      samples: new Map(),
    })
    if (await queue.leases.publish(rolloutId, end, leases.retentionSeconds * 1000, true)) {
      this.#lapsed += 1
      logger.warn({ rollout_id: rolloutId }, message)
    }
    // Also when it was published before: the cancel may have failed then, and the rollout would run on for nobody.
    await queue.cancel({ ids: [rolloutId] }, new OsmosisError('lease_expired', message))
    await queue.leases.unlist(rolloutId)
  }
}
