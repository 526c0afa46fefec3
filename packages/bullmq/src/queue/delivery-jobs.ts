import { randomUUID } from 'node:crypto'

import { Queue, Worker, type JobsOptions } from 'bullmq'
import type { Redis } from 'ioredis'

import type { QueueConnection } from '../connection/queue-connection.ts'
import { again, jobIdOf, queueNames, stalledIntervalFor, type RolloutJob } from './jobs.ts'

/** Delivers what a rollout has to be delivered; `mayHaveEnded` is a hint. */
export type Deliver = (id: string, mayHaveEnded: boolean) => Promise<unknown>

/** What a job is requested with. */
export interface DeliveryRequest {
  readonly hasEnded?: boolean
  readonly delayMs?: number
}

const resultOptions = { ...again, backoff: { type: 'custom' } } as const satisfies JobsOptions
const longestPauseMs = 60_000
/** Pause before the job of a delivery that failed. Milliseconds. */
const pauseMs = 1_000

/** The jobs by which a delivery reaches some server when the one that accepted the rollout did not hear of it. */
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
    // What fails is thrown where it was requested.
    this.#jobs.on('error', () => {})
  }

  /** This process, if it delivers, and how many milliseconds it has before others are asked. */
  get server(): { readonly id: string; readonly ms: number } | undefined {
    return this.#server
  }

  async ready(): Promise<unknown> {
    return this.#jobs.waitUntilReady()
  }

  /** Has some server deliver what a rollout has to be delivered. */
  async request(id: string, { hasEnded = false, delayMs = 0 }: DeliveryRequest): Promise<void> {
    // While the completion is delivered, a job for the end must not pass for the same.
    const jobId = `${jobIdOf(id)}.${hasEnded ? 'end' : 'completion'}`
    await this.#jobs.add('deliver', { id }, { ...resultOptions, jobId, delay: delayMs })
  }

  /** See `RolloutQueue.deliverResults`. */
  deliver(deliver: Deliver, concurrency: number, lockMs: number): () => void {
    // A sweep finds what no job could be added for.
    const passOn = (id: string, hasEnded: boolean, delayMs: number): void => {
      this.request(id, { hasEnded, delayMs }).catch(() => {})
    }
    const deliveries = new ServerDeliveries(deliver, concurrency, passOn)
    const { prefix } = this.#connection
    const hearing = this.#connection
      .subscribe(`${prefix}:server:${deliveries.id}`, (message) => deliveries.hear(message))
      .then((stop) => {
        this.#server = { id: deliveries.id, ms: lockMs * 1.5 }
        return stop
      })
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
      hearing
        .then((stop) => {
          this.#server = undefined
          stop()
          return undefined
        })
        .catch(() => {})
      worker.close().catch(() => {})
    }
  }

  /** Resolves when what is being delivered here has been noted. */
  async close(): Promise<void> {
    await Promise.all(this.#workers.map(async (worker) => worker.close()))
  }
}

/**
 * What this server delivers: for the rollouts that it accepted when it hears of an outcome, and for any
 * rollout of which a job says so. Deliveries of one rollout come one after the other.
 */
class ServerDeliveries {
  /** Different for each server. */
  readonly id = randomUUID()
  readonly #deliver: Deliver
  readonly #mostAtOnce: number
  readonly #passOn: (id: string, hasEnded: boolean, delayMs: number) => void
  readonly #current = new Map<string, Promise<unknown>>()

  /** @param passOn - has others deliver what is not delivered here now */
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
  hear(message: string): void {
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
