import { OsmosisError } from '@osmosis/core'
import type { CancelDisposition } from '@osmosis/runtime/wire'
import type { RolloutSelector } from '@osmosis/runtime'
import { startTimer } from '@osmosis/core/http'
import { Queue, type JobsOptions } from 'bullmq'
import type { Redis } from 'ioredis'

import { QueueConnection, type QueueConnectionOptions } from '../connection/queue-connection.ts'
import type {
  QueueAcceptance,
  AcceptLimits,
  RolloutEntry,
  RolloutRecord,
} from '../records/rollout-record.ts'
import { LeaseRecords } from '../records/lease-records.ts'
import { RolloutRecords } from '../records/rollout-records.ts'
import { QueuedExecutions } from '../records/queued-executions.ts'
import { DeliveryJobs, type Deliver, type DeliveryRequest } from './delivery-jobs.ts'
import { again, jobIdOf, queueNames, type RolloutJob } from './jobs.ts'
import { QueueSweep } from './queue-sweep.ts'
import { Wakes } from './wakes.ts'
import { readWorkers, type QueueWorker } from './worker-heartbeats.ts'

/** BullMQ's events are not used, so few are retained. */
const events = { maxLen: 100 }
const rolloutOptions = {
  ...again,
  backoff: { type: 'fixed', delay: 1_000 },
} as const satisfies JobsOptions
/** For current deliveries to be noted. Milliseconds. */
const closingMs = 2_000

/** How many rollouts are where. */
export interface QueueCounts {
  readonly queued: number
  readonly running: number
  readonly grading: number
  /** With a lease that somebody has to renew. */
  readonly leased: number
  /** With outcomes that have not been delivered yet. */
  readonly undelivered: number
  /** Accepted, and not yet both ended and delivered. */
  readonly inFlight: number
}

/** A queue of rollouts, for a server and for operators. The caller closes it. */
export interface OpenQueue extends AsyncDisposable {
  /** What looks wrong with this Redis, one sentence each; to be logged. */
  readonly warnings: readonly string[]
  /** Where the queue is, without user and password. */
  readonly address: string
  /** How many rollouts are where. */
  counts(): Promise<QueueCounts>
  /** The workers that are alive. */
  workers(): Promise<QueueWorker[]>
  /**
   * Limits how many rollouts all workers together run concurrently; null: any number.
   *
   * @throws OsmosisError with code `invalid_config`; `queue_unavailable`
   */
  setMaxRollouts(most: number | null): Promise<void>
  /** Resolves when current deliveries have finished. */
  close(): Promise<void>
}

/** The rollouts of any number of servers and workers. The caller closes it. */
export class RolloutQueue implements OpenQueue {
  readonly warnings: readonly string[]
  /** What there is of each rollout. */
  readonly records: RolloutRecords
  readonly leases: LeaseRecords
  readonly address: string
  readonly #connection: QueueConnection
  /** What runs write: for workers. */
  readonly runs: QueuedExecutions
  readonly #rollouts: Queue<RolloutJob>
  readonly #deliveries: DeliveryJobs
  readonly #wakes: Wakes
  readonly #sweep: QueueSweep
  /** Whether the last rollout found the queue full. */
  #isFull = false
  #closing: Promise<void> | undefined

  private constructor(connection: QueueConnection, redis: Redis, warnings: readonly string[]) {
    this.warnings = warnings
    this.address = connection.address
    this.#connection = connection
    this.records = new RolloutRecords(connection, redis)
    this.leases = new LeaseRecords(this.records)
    this.runs = new QueuedExecutions(this.records, (id, hasEnded) => {
      // A sweep finds what no job could be added for.
      this.requestDelivery(id, { hasEnded }).catch(() => {})
    })
    const { prefix } = connection
    const options = { connection: redis, prefix, skipVersionCheck: true, streams: { events } }
    this.#rollouts = new Queue(queueNames.rollouts, options)
    this.#deliveries = new DeliveryJobs(connection, redis)
    // Each command throws its own failure.
    this.#rollouts.on('error', () => {})
    this.#wakes = new Wakes(
      redis,
      async (onMessage) => connection.subscribe(`${prefix}:wake`, onMessage),
      (id) => this.records.key(id),
    )
    this.#sweep = new QueueSweep(redis, prefix, {
      records: this.records,
      runs: this.runs,
      release: async (id) => this.#release(id),
      isQueued: async (id) => (await this.#rollouts.getJob(jobIdOf(id))) !== undefined,
      requestDelivery: async (id) => this.requestDelivery(id),
      holdKeys: async () => connection.holdKeys(redis),
    })
  }

  /** See `openQueue`. */
  static async open(options: QueueConnectionOptions): Promise<RolloutQueue> {
    const connection = new QueueConnection(options)
    const redis = connection.failing()
    try {
      const queue = new RolloutQueue(connection, redis, await connection.check(redis))
      // BullMQ does not reconnect when Redis is lost before that.
      await Promise.all([queue.#rollouts.waitUntilReady(), queue.#deliveries.ready()])
      return queue
    } catch (error) {
      connection.close()
      throw error
    }
  }

  /**
   * Accepts a rollout: for good when this resolves with `new`. When it throws the result is unknown, as after any
   * lost answer; repeating the call finishes what was started.
   *
   * @throws OsmosisError with code `queue_unavailable`
   */
  async accept(entry: RolloutEntry, limits: AcceptLimits = {}): Promise<QueueAcceptance> {
    const accepting = this.records.accept(entry, limits, this.#deliveries.server)
    // Sent with the record, and so done after it. A job without a record, or one more for the same, does
    // no harm, but while there is no room they would be too many.
    const adding = this.#isFull ? undefined : this.#add(entry)
    const [acceptance] = await Promise.all([accepting, adding])
    const { result } = acceptance
    this.#isFull = result === 'full'
    if (adding === undefined && (result === 'new' || result === 'known')) await this.#add(entry)
    return acceptance
  }

  async #add({ id, priority }: RolloutEntry): Promise<void> {
    const options = { ...rolloutOptions, jobId: jobIdOf(id) }
    const ordered = priority === undefined ? options : { ...options, priority }
    await this.#asked(this.#rollouts.add('rollout', { id }, ordered))
  }

  /** A rollout as it stands; undefined for one that is not known. */
  async record(id: string): Promise<RolloutRecord | undefined> {
    return this.records.read(id)
  }

  /**
   * Cancels rollouts that have not ended, wherever they are. The result has every id of an `ids`
   * selector, and for others the ids of those that were cancelled.
   *
   * @param reason - what they fail with; default: `cancelled`
   */
  async cancel(
    selector: RolloutSelector,
    reason: OsmosisError = new OsmosisError('cancelled', 'cancelled'),
  ): Promise<Map<string, CancelDisposition>> {
    const byId = 'ids' in selector
    const ids = byId ? selector.ids : await this.#going()
    const chosen = 'prefix' in selector ? ids.filter((id) => id.startsWith(selector.prefix)) : ids
    const dispositions = new Map<string, CancelDisposition>()
    await Promise.all(
      chosen.map(async (id) => {
        const { disposition, hasEnded } = await this.runs.cancel(id, reason)
        if (byId || disposition !== 'not_found') dispositions.set(id, disposition)
        if (hasEnded) await this.#release(id)
      }),
    )
    return dispositions
  }

  /** Has some server deliver what a rollout has to be delivered. */
  async requestDelivery(id: string, request: DeliveryRequest = {}): Promise<void> {
    await this.#asked(this.#deliveries.request(id, request))
  }

  /**
   * Takes part in delivering results. `deliver` is called, on one server at a time, whenever a rollout may
   * have an outcome that was not delivered: it reads the record and delivers that. When it rejects, it is
   * called again later, on any server, after pauses that grow to a minute.
   *
   * @param concurrency - how many at a time
   * @param lockMs - how long a server may be silent before others deliver what it was delivering
   * @returns begins no more of it; deliveries in progress continue
   */
  deliverResults(deliver: Deliver, concurrency: number, lockMs = 10_000): () => void {
    return this.#deliveries.deliver(deliver, concurrency, lockMs)
  }

  /**
   * The record now and after each change, until it is removed or the signal is aborted. Changes that
   * come fast are seen as one.
   *
   * @throws the reason of `signal`; OsmosisError with code `queue_unavailable`
   */
  async *watch(id: string, signal: AbortSignal): AsyncGenerator<RolloutRecord, void> {
    let wake = Promise.withResolvers<void>()
    const stop = this.#wakes.listen(id, () => wake.resolve())
    const onAbort = (): void => wake.resolve()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      for (let seen = -1; ; await wake.promise) {
        signal.throwIfAborted()
        wake = Promise.withResolvers<void>()
        const record = await this.record(id)
        if (record === undefined) return
        if (record.version === seen) continue
        seen = record.version
        yield record
      }
    } finally {
      stop()
      signal.removeEventListener('abort', onAbort)
    }
  }

  async counts(): Promise<QueueCounts> {
    const count = async (list: string): Promise<number> =>
      this.records.ask((redis) => redis.zcard(`${this.#connection.prefix}:${list}`))
    const { prefix } = this.#connection
    const [queued, running, grading, leased, undelivered, both] = await Promise.all([
      count('queued'),
      count('running'),
      count('grading'),
      count('leases'),
      count('undelivered'),
      // Rollouts whose completion is being delivered.
      this.records.ask((redis) => redis.zinter(2, `${prefix}:grading`, `${prefix}:undelivered`)),
    ])
    const inFlight = queued + running + grading + undelivered - both.length
    return { queued, running, grading, leased, undelivered, inFlight }
  }

  async workers(): Promise<QueueWorker[]> {
    return this.records.ask((redis) => readWorkers(redis, this.#connection.prefix))
  }

  /** Ids of leases that were not renewed in time, and whose end is not decided. */
  async lapsedLeases(): Promise<string[]> {
    return this.records.ask(async (redis) => {
      const [seconds = '0'] = await redis.time()
      return redis.zrangebyscore(
        `${this.#connection.prefix}:leases`,
        '-inf',
        Number(seconds) * 1000,
        'LIMIT',
        0,
        1_000,
      )
    })
  }

  async setMaxRollouts(most: number | null): Promise<void> {
    // With anything else, BullMQ would take rollouts and never give them to anybody.
    if (most !== null && !(Number.isInteger(most) && most > 0)) {
      throw new OsmosisError(
        'invalid_config',
        `The most rollouts of a queue must be a whole number from 1, or null for any number, got ${JSON.stringify(most)}.`,
      )
    }
    await this.#asked(
      most === null
        ? this.#rollouts.removeGlobalConcurrency()
        : this.#rollouts.setGlobalConcurrency(most),
    )
  }

  async close(): Promise<void> {
    this.#closing ??= this.#close()
    await this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    this.#sweep.close()
    this.#wakes.close()
    const closed = this.#deliveries.close()
    // Without Redis they wait for its return.
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = startTimer(closingMs, resolve)
    await Promise.race([closed, late])
    timer.clear()
    this.#connection.close()
  }

  /** Those that have not ended. */
  async #going(): Promise<string[]> {
    const { prefix } = this.#connection
    const lists = ['queued', 'running', 'grading'].map(async (status) =>
      this.records.ask((redis) => redis.zrange(`${prefix}:${status}`, 0, -1)),
    )
    return (await Promise.all(lists)).flat()
  }

  /** The job of a rollout that has ended is of no use. */
  async #release(id: string): Promise<void> {
    await this.#asked(this.#rollouts.remove(jobIdOf(id)))
  }

  async #asked<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer
    } catch (error) {
      throw this.#connection.unavailable(error)
    }
  }
}

/**
 * Connects to a queue, and looks whether its Redis keeps what it is given.
 *
 * @throws OsmosisError with code `invalid_config`; `queue_unavailable` when Redis does not answer
 */
export async function openQueue(options: QueueConnectionOptions): Promise<OpenQueue> {
  return RolloutQueue.open(options)
}
