import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

import { DelayedError, Queue, WaitingError, Worker, type Job, type JobsOptions } from 'bullmq'
import type { Redis } from 'ioredis'

import type { QueueConnection } from '../connection/queue-connection.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'

/** Queues of BullMQ. */
export const queueNames = { rollouts: 'rollouts', results: 'results' } as const

/** What a job is about; everything else is in the record. */
export interface RolloutJob {
  readonly id: string
}

/** The id of the jobs of a rollout: BullMQ accepts neither colons nor whole numbers. */
export function jobIdOf(id: string): string {
  return `r-${id.replaceAll(/[%:]/g, (character) => encodeURIComponent(character))}`
}

/** The records decide how often a rollout is tried, not BullMQ. */
export const again = { attempts: 1_000_000, removeOnComplete: true, removeOnFail: true } as const

/**
 * The interval to configure so that BullMQ checks for jobs without a lock at least every `mostMs`. BullMQ
 * skips a check that starts before the interval has passed on the clock of Redis, as about one in ten does;
 * the next check is an interval later.
 */
export function stalledIntervalFor(mostMs: number): number {
  return Math.ceil(mostMs / 2)
}

/** Returns a job to the front of the queue for other workers. */
export async function giveBack(job: Job<RolloutJob>, token: string | undefined): Promise<never> {
  await job.moveToWait(token)
  throw new WaitingError()
}

export async function later(
  job: Job<RolloutJob>,
  token: string | undefined,
  ms: number,
): Promise<never> {
  await job.moveToDelayed(Date.now() + ms, token)
  throw new DelayedError()
}

const everyMs = 500
/** Failed pings before closing stops waiting for Redis. */
const mostMisses = 6

/** Closes a worker of BullMQ, which alone would wait forever while Redis is unreachable. */
export async function closeJobs(jobs: Worker, records: RolloutRecords): Promise<void> {
  let closed = false
  const closing = jobs.close().then(() => {
    closed = true
    return undefined
  })
  for (let misses = 0; misses < mostMisses;) {
    await Promise.race([closing, sleep(everyMs)])
    if (closed) return
    const isThere = await records
      .ask(async (redis) => redis.ping())
      .then(
        () => true,
        () => false,
      )
    misses = isThere ? 0 : misses + 1
  }
}

/** Delivers the pending outcomes of a rollout; `mayHaveEnded` is a hint. */
export type Deliver = (id: string, mayHaveEnded: boolean) => Promise<unknown>

/** Options of a request for delivery. */
export interface DeliveryRequest {
  readonly hasEnded?: boolean
  readonly delayMs?: number
}

/** How a server delivers. */
export interface DeliveryOptions {
  /** Maximum concurrent deliveries. */
  readonly concurrency: number
  /** How long a server may be silent before others take over its deliveries. Milliseconds; default: 10,000. */
  readonly lockMs?: number
  /** Called when Redis does not let this server be told of outcomes at once. Default: nobody is told. */
  readonly onUntold?: (error: unknown) => void
}

const resultOptions = { ...again, backoff: { type: 'custom' } } as const satisfies JobsOptions
const longestPauseMs = 60_000
/** Pause before the job of a failed delivery. Milliseconds. */
const pauseMs = 1_000

/** Jobs for deliveries that the server which accepted the rollout was not notified of, or could not make. */
export class DeliveryJobs {
  readonly #connection: QueueConnection
  readonly #jobs: Queue<RolloutJob>
  readonly #workers: Worker[] = []
  #server: { readonly id: string; readonly ms: number } | undefined

  constructor(connection: QueueConnection, redis: Redis) {
    this.#connection = connection
    const { prefix } = connection
    const streams = { events: { maxLen: 100 } }
    this.#jobs = new Queue(queueNames.results, {
      connection: redis,
      prefix,
      skipVersionCheck: true,
      streams,
    })
    // Errors are thrown to the caller of the request.
    this.#jobs.on('error', () => {})
  }

  /** This server, if it delivers, and how many milliseconds it has before other servers deliver. */
  get server(): { readonly id: string; readonly ms: number } | undefined {
    return this.#server
  }

  async ready(): Promise<unknown> {
    return this.#jobs.waitUntilReady()
  }

  /** Requests the delivery of a rollout's pending outcomes by any server. */
  async request(id: string, { hasEnded = false, delayMs = 0 }: DeliveryRequest): Promise<void> {
    // A job for the end must not be taken for the one of the completion.
    const jobId = `${jobIdOf(id)}.${hasEnded ? 'end' : 'completion'}`
    await this.#jobs.add('deliver', { id }, { ...resultOptions, jobId, delay: delayMs })
  }

  /** See `RolloutQueue.deliverResults`. */
  deliver(
    deliver: Deliver,
    { concurrency, lockMs = 10_000, onUntold }: DeliveryOptions,
  ): () => void {
    // If the job cannot be added, a sweep finds the rollout later.
    const passOn = (id: string, hasEnded: boolean, delayMs: number): void => {
      this.request(id, { hasEnded, delayMs }).catch(() => {})
    }
    const deliveries = new ServerDeliveries(deliver, concurrency, passOn)
    const { prefix } = this.#connection
    const subscription = this.#connection
      .subscribe(`${prefix}:server:${deliveries.id}`, (message) => deliveries.onMessage(message))
      .then((stop) => {
        this.#server = { id: deliveries.id, ms: lockMs * 1.5 }
        return stop
      })
    // Without it, the jobs are what tells this server of outcomes.
    subscription.catch((error: unknown) => onUntold?.(error))
    const worker = new Worker<RolloutJob>(
      queueNames.results,
      async ({ data }) => deliveries.deliver(data.id, true),
      {
        connection: this.#connection.waiting(),
        prefix,
        skipVersionCheck: true,
        concurrency,
        lockDuration: lockMs,
        stalledInterval: stalledIntervalFor(lockMs / 2),
        maxStalledCount: again.attempts,
        settings: {
          backoffStrategy: (attempts) => Math.min(500 * 2 ** attempts, longestPauseMs),
        },
      },
    )
    worker.on('error', () => {})
    this.#workers.push(worker)
    return () => {
      subscription
        .then((stop) => {
          this.#server = undefined
          stop()
          return undefined
        })
        .catch(() => {})
      worker.close().catch(() => {})
    }
  }

  /** Resolves when the current deliveries are recorded. */
  async close(): Promise<void> {
    await Promise.all(this.#workers.map(async (worker) => worker.close()))
  }
}

/**
 * The deliveries of this server: of rollouts that it accepted, when it is notified of an outcome, and of
 * any rollout with a job. Deliveries of one rollout run one after another.
 */
class ServerDeliveries {
  /** Different for each server. */
  readonly id = randomUUID()
  readonly #deliver: Deliver
  readonly #mostAtOnce: number
  readonly #passOn: (id: string, hasEnded: boolean, delayMs: number) => void
  readonly #current = new Map<string, Promise<unknown>>()

  /** @param passOn - requests the delivery by any server */
  constructor(
    deliver: Deliver,
    mostAtOnce: number,
    passOn: (id: string, hasEnded: boolean, delayMs: number) => void,
  ) {
    this.#deliver = deliver
    this.#mostAtOnce = mostAtOnce
    this.#passOn = passOn
  }

  /** @param message - status and id of a rollout that this server accepted */
  onMessage(message: string): void {
    const space = message.indexOf(' ')
    const hasEnded = message.slice(0, space) !== 'grading'
    const id = message.slice(space + 1)
    if (this.#current.size >= this.#mostAtOnce) return this.#passOn(id, hasEnded, 0)
    this.deliver(id, hasEnded).catch(() => this.#passOn(id, hasEnded, pauseMs))
  }

  async deliver(id: string, mayHaveEnded: boolean): Promise<void> {
    const before = this.#current.get(id)?.catch(() => {})
    const delivery = (async (): Promise<void> => {
      await before
      await this.#deliver(id, mayHaveEnded)
    })()
    this.#current.set(id, delivery)
    try {
      await delivery
    } finally {
      if (this.#current.get(id) === delivery) this.#current.delete(id)
    }
  }
}
