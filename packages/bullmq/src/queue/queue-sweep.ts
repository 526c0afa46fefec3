import { errorMessage, OsmosisError } from '@osmosis/core'
import { isEnded, lossError, type RolloutRequest } from '@osmosis/protocol'
import type { Redis } from 'ioredis'

import { isUnavailable } from '../connection/queue-retries.ts'
import { settledAfterMs, type QueuedExecutions } from '../records/queued-executions.ts'
import { deliveryScripts } from '../records/record-scripts.ts'
import type { RolloutRecord } from '../records/rollout-record.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'
import { undeliveredMs } from '../records/script-library.ts'
import type { RecordFields } from '../records/stored-outcomes.ts'

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
  /** Is told of a rollout about which nothing can be done, for example because its record cannot be opened. */
  readonly onFailure: (id: string, error: unknown) => void
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
      const now = await records.now()
      await this.#forEach('deadlines', now, async (id) => this.#expire(id, now))
      await this.#forEach('jobless', now, async (id) => this.#abandon(id))
      await this.#forEach('undelivered', now, async (id) => this.#remind(id, now))
      await this.#endLostGradings(servedMs)
    } finally {
      this.#sweeping = false
    }
  }

  /** Does something for each rollout of a list whose time has come. */
  async #forEach(list: string, now: number, act: (id: string) => Promise<void>): Promise<void> {
    const key = `${this.#prefix}:${list}`
    const due = await this.#redis.zrangebyscore(key, '-inf', now, 'LIMIT', 0, atATime)
    for (const id of due) await this.#try(id, act)
  }

  /** One rollout about which nothing can be done keeps no other from what is due. Resolves with whether it was done. */
  async #try(id: string, act: (id: string) => Promise<void>): Promise<boolean> {
    try {
      await act(id)
      return true
    } catch (error) {
      if (isUnavailable(error)) throw error
      this.#parts.onFailure(id, error)
      return false
    }
  }

  async #expire(id: string, now: number): Promise<void> {
    const { records, runs, release } = this.#parts
    const read = await records.readWith(id, ['request'])
    if (read === undefined || isEnded(read.record.status)) {
      await records.ask(async (redis) => redis.zrem(`${this.#prefix}:deadlines`, id))
      return
    }
    await runs.giveUp(read.record, exceeded(read, now))
    await release(id)
  }

  async #remind(id: string, now: number): Promise<void> {
    const { records, requestDelivery } = this.#parts
    const key = `${this.#prefix}:undelivered`
    await records.ask(async (redis) => redis.zadd(key, 'XX', now + undeliveredMs, id))
    await requestDelivery(id)
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
      const lost = await this.#redis.smembers(held)
      let areEnded = true
      for (const id of lost) {
        if (!(await this.#try(id, async () => this.#endLost(id, worker, held)))) areEnded = false
      }
      if (areEnded) await this.#redis.hdel(workers, worker)
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
    await records.ask(async (redis) => redis.srem(held, id))
  }
}

/** The reason for the end of a rollout whose deadline has passed. */
function exceeded(
  { record, more }: { readonly record: RolloutRecord; readonly more: RecordFields },
  now: number,
): OsmosisError {
  let request: RolloutRequest
  try {
    request = more.open('request') as RolloutRequest
  } catch (cause) {
    const why = `and its request cannot be read: ${errorMessage(cause)}`
    return new OsmosisError('timeout', `workflow exceeded its deadline, ${why}`, { cause })
  }
  const { agentTimeoutSeconds: limit, queuedSeconds = 0 } = request
  const waited = (now - record.admittedAt) / 1000 + queuedSeconds
  const detail = record.status === 'queued' ? ` (${waited.toFixed(1)}s of it spent queued)` : ''
  return new OsmosisError('timeout', `workflow exceeded its ${limit}s deadline${detail}`)
}
