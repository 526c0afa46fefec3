import { OsmosisError } from '@osmosis/core'
import { isEnded, lossError, type RolloutRequest } from '@osmosis/protocol'
import type { Redis } from 'ioredis'

import { deliveryScripts } from '../records/record-scripts.ts'
import { undeliveredMs } from '../records/script-library.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'
import { settledAfterMs, type QueuedExecutions } from '../records/queued-executions.ts'

/** Time between two sweeps of all servers and workers together. Milliseconds. */
const everyMs = 1_000
const atATime = 500
/** How long it is remembered since when Redis is reached, while no process sweeps. Milliseconds. */
const rememberedMs = 15 * 60_000

/** Dependencies of a sweep. */
interface SweepParts {
  readonly records: RolloutRecords
  readonly runs: QueuedExecutions
  /** Removes the job of a rollout that has ended. */
  readonly release: (id: string) => Promise<void>
  /** Whether a rollout has a job. */
  readonly isQueued: (id: string) => Promise<boolean>
  readonly requestDelivery: (id: string) => Promise<void>
  /** Renews the record of the queue's keys. */
  readonly holdKeys: () => Promise<void>
  /** Is told about every second whether Redis stores what it is asked to: why not, or undefined. */
  readonly onAnswer: (refusal: unknown) => void
}

/**
 * Finds what no other process notices: expired deadlines of queued rollouts and of rollouts in a worker that
 * hangs, gradings whose worker was lost, undelivered outcomes and acceptances that were never finished. Only
 * one process sweeps at once.
 */
export class QueueSweep {
  readonly #redis: Redis
  readonly #prefix: string
  readonly #parts: SweepParts
  readonly #timer: NodeJS.Timeout
  #sweeping = false

  constructor(redis: Redis, prefix: string, parts: SweepParts) {
    this.#redis = redis
    this.#prefix = prefix
    this.#parts = parts
    this.#timer = setInterval(() => {
      // The next sweep tries again.
      this.#sweep().catch(() => {})
    }, everyMs)
    this.#timer.unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #sweep(): Promise<void> {
    if (this.#sweeping) return
    this.#sweeping = true
    const { onAnswer } = this.#parts
    const onRefusal = (refusal: unknown): never => {
      onAnswer(refusal)
      throw refusal
    }
    try {
      const turn = `${this.#prefix}:sweep`
      const taken = await this.#redis.set(turn, 1, 'PX', everyMs - 100, 'NX').catch(onRefusal)
      onAnswer(undefined)
      if (taken === null) return
      await this.#parts.holdKeys()
      const { records } = this.#parts
      const servedMs = Number(await records.run(deliveryScripts.served, 'any', [rememberedMs]))
      const [seconds = '0', microseconds = '0'] = await this.#redis.time()
      const now = Number(seconds) * 1000 + Number(microseconds) / 1000
      for (const id of await this.#due('deadlines', now)) await this.#expire(id, now)
      for (const id of await this.#due('jobless', now)) await this.#abandon(id)
      for (const id of await this.#due('undelivered', now)) await this.#remind(id, now)
      await this.#endLostGradings(servedMs)
    } finally {
      this.#sweeping = false
    }
  }

  async #due(list: string, now: number): Promise<string[]> {
    const key = `${this.#prefix}:${list}`
    return this.#redis.zrangebyscore(key, '-inf', now, 'LIMIT', 0, atATime)
  }

  async #expire(id: string, now: number): Promise<void> {
    const { records, runs, release } = this.#parts
    const read = await records.readWith(id, ['request'])
    const request = read?.more.open('request') as RolloutRequest | undefined
    if (read === undefined || isEnded(read.record.status) || request === undefined) {
      await this.#redis.zrem(`${this.#prefix}:deadlines`, id)
      return
    }
    const { record } = read
    const { agentTimeoutSeconds: limit, queuedSeconds = 0 } = request
    const waited = (now - record.admittedAt) / 1000 + queuedSeconds
    const detail = record.status === 'queued' ? ` (${waited.toFixed(1)}s of it spent queued)` : ''
    const reason = new OsmosisError('timeout', `workflow exceeded its ${limit}s deadline${detail}`)
    await runs.giveUp(record, reason)
    await release(id)
  }

  async #remind(id: string, now: number): Promise<void> {
    await this.#redis.zadd(`${this.#prefix}:undelivered`, 'XX', now + undeliveredMs, id)
    await this.#parts.requestDelivery(id)
  }

  /** No worker has taken it for a long time: it still waits, or its server could not add its job. */
  async #abandon(id: string): Promise<void> {
    const { records, isQueued } = this.#parts
    const script = (await isQueued(id)) ? deliveryScripts.hasJob : deliveryScripts.abandon
    await records.run(script, id)
  }

  /** The samples of a rollout between its phases or in grading are in its worker, and are lost with it. */
  async #endLostGradings(servedMs: number): Promise<void> {
    const workers = `${this.#prefix}:workers`
    const known = Object.entries(await this.#redis.hgetall(workers))
    for (const [worker, lockMs] of known) {
      if (await this.#redis.exists(`${this.#prefix}:worker:${worker}`)) continue
      if (servedMs < settledAfterMs(Number(lockMs))) return
      const held = `${this.#prefix}:held:${worker}`
      for (const id of await this.#redis.smembers(held)) await this.#endLost(id, worker, held)
      await this.#redis.hdel(workers, worker)
    }
  }

  async #endLost(id: string, worker: string, held: string): Promise<void> {
    const { records, runs } = this.#parts
    const record = await records.read(id)
    const isHere = record?.worker === worker || record?.worker === '-'
    if (record?.status === 'grading' && isHere) {
      const { cancel } = await runs.look(record)
      await runs.giveUp(record, cancel ?? lossError('the worker was lost', 'samples_lost'))
    }
    await this.#redis.srem(held, id)
  }
}
