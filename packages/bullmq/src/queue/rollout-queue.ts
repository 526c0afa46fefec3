import { errorMessage, OsmosisError } from '@osmosis/core'
import { startTimer } from '@osmosis/core/http'
import type { RolloutSelector } from '@osmosis/protocol'
import type { CancelDisposition } from '@osmosis/protocol/wire'
import { Queue, type JobsOptions } from 'bullmq'
import type { Redis } from 'ioredis'

import { QueueConnection, type QueueConnectionOptions } from '../connection/queue-connection.ts'
import { LeaseRecords } from '../records/lease-records.ts'
import { QueuedExecutions } from '../records/queued-executions.ts'
import {
  storedCode,
  type QueueAcceptance,
  type AcceptLimits,
  type RolloutEntry,
  type RolloutRecord,
} from '../records/rollout-record.ts'
import { RolloutRecords } from '../records/rollout-records.ts'
import {
  again,
  DeliveryJobs,
  jobIdOf,
  queueNames,
  type Deliver,
  type DeliveryOptions,
  type DeliveryRequest,
  type RolloutJob,
} from './jobs.ts'
import { QueueSweep } from './queue-sweep.ts'
import { QueueTroubles } from './queue-troubles.ts'
import { Wakes } from './record-notifications.ts'
import { readWorkers, type QueueWorker } from './worker-heartbeats.ts'

/** BullMQ's events are not used, so few are retained. */
const events = { maxLen: 100 }
const rolloutOptions = {
  ...again,
  backoff: { type: 'fixed', delay: 1_000 },
} as const satisfies JobsOptions
/** How long closing waits until current deliveries are recorded. Milliseconds. */
const closingMs = 2_000

/** The numbers of rollouts in a queue. */
export interface QueueCounts {
  readonly queued: number
  readonly running: number
  readonly grading: number
  /** With a lease that has not ended. */
  readonly leased: number
  /** With pending outcomes. */
  readonly undelivered: number
  /** Accepted, but not yet both ended and delivered. */
  readonly inFlight: number
}

/** A queue of rollouts, for a server and for operators. The caller closes it. */
export interface OpenQueue extends AsyncDisposable {
  /** Problems of this Redis, one sentence each; to be logged. */
  readonly warnings: readonly string[]
  /** The address of the queue without user and password. */
  readonly address: string
  /** The numbers of its rollouts. */
  counts(): Promise<QueueCounts>
  /** The workers that are alive. */
  workers(): Promise<QueueWorker[]>
  /**
   * Limits how many rollouts all workers together run concurrently; null is unlimited.
   *
   * @throws OsmosisError with code `invalid_config`; `queue_unavailable`
   */
  setMaxRollouts(most: number | null): Promise<void>
  /** Resolves when current deliveries have finished. */
  close(): Promise<void>
}

/** A queue that any number of servers and workers share. The caller closes it. */
export class RolloutQueue implements OpenQueue {
  readonly warnings: readonly string[]
  /** The records of all rollouts. */
  readonly records: RolloutRecords
  readonly leases: LeaseRecords
  readonly troubles: QueueTroubles
  readonly address: string
  readonly #connection: QueueConnection
  /** Writes of executions, for workers. */
  readonly runs: QueuedExecutions
  readonly #rollouts: Queue<RolloutJob>
  readonly #deliveries: DeliveryJobs
  readonly #wakes: Wakes
  readonly #sweep: QueueSweep
  /** Whether the last rollout was refused because the queue was full. */
  #isFull = false
  #closing: Promise<void> | undefined

  private constructor(connection: QueueConnection, redis: Redis, warnings: readonly string[]) {
    this.warnings = warnings
    this.address = connection.address
    this.#connection = connection
    this.records = new RolloutRecords(connection, redis)
    this.leases = new LeaseRecords(this.records)
    this.troubles = new QueueTroubles((refusal) => connection.unavailable(refusal))
    this.runs = new QueuedExecutions(this.records, (id, hasEnded) => {
      // If the job cannot be added, a sweep finds the rollout later.
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
      isQueued: async (id) =>
        (await this.#answered(this.#rollouts.getJob(jobIdOf(id)))) !== undefined,
      requestDelivery: async (id) => this.requestDelivery(id),
      holdKeys: async () => connection.holdKeys(redis),
      onAnswer: (refusal) => this.troubles.note(refusal),
      onFailure: (id, error) => this.troubles.noteRollout(id, error),
    })
  }

  /** Why Redis does not store what it is asked to, as of the last second; undefined while it does. */
  get trouble(): OsmosisError | undefined {
    return this.troubles.current
  }

  /** See `openQueue`. */
  static async open(options: QueueConnectionOptions): Promise<RolloutQueue> {
    const connection = new QueueConnection(options)
    const redis = connection.failing()
    let queue: RolloutQueue | undefined
    try {
      queue = new RolloutQueue(connection, redis, await connection.check(redis))
      // BullMQ does not reconnect when Redis is lost before it is ready.
      await Promise.all([queue.#rollouts.waitUntilReady(), queue.#deliveries.ready()])
      return queue
    } catch (error) {
      await queue?.close()
      connection.close()
      throw error
    }
  }

  /**
   * Accepts a rollout, permanently when this resolves with `new`. When it throws, the result is unknown, and
   * repeating the call completes the acceptance.
   *
   * @throws OsmosisError with code `queue_unavailable`; with a `refusalWord`, nothing was accepted
   */
  async accept(entry: RolloutEntry, limits: AcceptLimits = {}): Promise<QueueAcceptance> {
    return this.records.replicated(async () => this.#accept(entry, limits))
  }

  async #accept(entry: RolloutEntry, limits: AcceptLimits): Promise<QueueAcceptance> {
    const accepting = this.records.accept(entry, limits, this.#deliveries.server)
    // Sent with the record, and therefore executed after it. A job without a record does no harm, but
    // while the queue is full there would be too many.
    const adding = this.#isFull ? undefined : this.#add(entry)
    const [accepted, added] = await Promise.allSettled([accepting, adding])
    if (accepted.status === 'rejected') throw accepted.reason
    if (added.status === 'rejected') throw withoutJob(added.reason)
    const acceptance = accepted.value
    const { result } = acceptance
    this.#isFull = result === 'full'
    if (adding === undefined && (result === 'new' || result === 'known')) await this.#add(entry)
    return acceptance
  }

  async #add({ id, priority }: RolloutEntry): Promise<void> {
    const options = { ...rolloutOptions, jobId: jobIdOf(id) }
    const ordered = priority === undefined ? options : { ...options, priority }
    await this.#answered(this.#rollouts.add('rollout', { id }, ordered))
  }

  /** The record of a rollout; undefined for an unknown one. */
  async record(id: string): Promise<RolloutRecord | undefined> {
    return this.records.read(id)
  }

  /**
   * Cancels rollouts that have not ended. The result has every id of an `ids` selector, and for other
   * selectors the ids of the cancelled rollouts.
   *
   * @param reason - the error they fail with; default: `cancelled`
   * @param code - leaves rollouts of other code alone, unless their ids are named; default: none is left alone
   */
  async cancel(
    selector: RolloutSelector,
    reason: OsmosisError = new OsmosisError('cancelled', 'cancelled'),
    code?: string,
  ): Promise<Map<string, CancelDisposition>> {
    const byId = 'ids' in selector
    const ids = byId ? selector.ids : await this.#activeIds(code)
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

  /** Requests the delivery of a rollout's pending outcomes by any server. */
  async requestDelivery(id: string, request: DeliveryRequest = {}): Promise<void> {
    await this.#answered(this.#deliveries.request(id, request))
  }

  /**
   * Makes this server deliver results. `deliver` is called, on one server at once, whenever a rollout may have
   * a pending outcome: it reads the record and delivers it. When it rejects, it is called again later, on any
   * server, after pauses that grow to a minute.
   *
   * @returns a function that stops new deliveries; those in progress continue
   */
  deliverResults(deliver: Deliver, options: DeliveryOptions): () => void {
    return this.#deliveries.deliver(deliver, options)
  }

  /**
   * The record now and after each change, until it is removed or the signal is aborted. Changes in quick
   * succession are reported as one.
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

  /** Ids of expired leases whose end is not decided. */
  async lapsedLeases(): Promise<string[]> {
    const leases = `${this.#connection.prefix}:leases`
    const now = await this.records.now()
    return this.records.ask(async (redis) =>
      redis.zrangebyscore(leases, '-inf', now, 'LIMIT', 0, 1_000),
    )
  }

  async setMaxRollouts(most: number | null): Promise<void> {
    // With other values, BullMQ would accept rollouts and never pass them to a worker.
    if (most !== null && !(Number.isInteger(most) && most > 0)) {
      throw new OsmosisError(
        'invalid_config',
        `The maximum number of rollouts of a queue must be a whole number of at least 1, or null for no limit, got ${JSON.stringify(most)}.`,
      )
    }
    await this.#answered(
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
    // While Redis is unreachable, they do not settle.
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = startTimer(closingMs, resolve)
    await Promise.race([closed, late])
    timer.clear()
    this.#connection.close()
  }

  /** Ids of rollouts that have not ended, and were accepted for this code. */
  async #activeIds(code: string | undefined): Promise<string[]> {
    const { prefix } = this.#connection
    const lists = ['queued', 'running', 'grading'].map(async (status) =>
      this.records.ask((redis) => redis.zrange(`${prefix}:${status}`, '0', '-1')),
    )
    const ids = (await Promise.all(lists)).flat()
    if (code === undefined) return ids
    const codes = await Promise.all(ids.map(async (id) => this.records.codeOf(id)))
    return ids.filter((_, n) => codes[n] === storedCode(code))
  }

  /** Removes the job of a rollout that has ended. */
  async #release(id: string): Promise<void> {
    await this.#answered(this.#rollouts.remove(jobIdOf(id)))
  }

  async #answered<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer
    } catch (error) {
      throw this.#connection.unavailable(error)
    }
  }
}

/** The error of an acceptance whose record is stored, and whose job is not: repeating it stores the job as well. */
function withoutJob(cause: unknown): OsmosisError {
  const message = errorMessage(cause)
  return new OsmosisError('queue_unavailable', message, { cause: new Error(message, { cause }) })
}

/**
 * Connects to a queue, and checks that its Redis stores data durably.
 *
 * @throws OsmosisError with code `invalid_config`; `queue_unavailable` when Redis does not answer
 */
export async function openQueue(options: QueueConnectionOptions): Promise<OpenQueue> {
  return RolloutQueue.open(options)
}
