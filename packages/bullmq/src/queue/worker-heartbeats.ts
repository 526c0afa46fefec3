import type { Redis } from 'ioredis'

import { shownCode, storedCode } from '../records/rollout-record.ts'

/** The heartbeat of a worker, several times within its lock duration. */
export interface QueueWorker {
  readonly id: string
  readonly host: string
  readonly pid: number
  /** Digest of the code that it runs. */
  readonly code: string
  readonly concurrency: number
  /** Rollouts that it has. */
  readonly active: number
  /** The longest delay of its event loop since the last heartbeat. Milliseconds. */
  readonly loopDelayMs: number
}

/** Writes the heartbeat of a worker, which holds for `lockMs`. */
export async function writeHeartbeat(
  redis: Redis,
  prefix: string,
  worker: QueueWorker,
  lockMs: number,
): Promise<void> {
  const key = `${prefix}:worker:${worker.id}`
  await redis
    .multi()
    .set(key, JSON.stringify({ ...worker, code: storedCode(worker.code) }), 'PX', lockMs)
    .hset(`${prefix}:workers`, worker.id, lockMs)
    .exec()
}

/** Removes a worker that has ended, so that its rollouts do not wait for its lock. */
export async function removeHeartbeat(redis: Redis, prefix: string, id: string): Promise<void> {
  await redis.multi().del(`${prefix}:worker:${id}`).hdel(`${prefix}:workers`, id).exec()
}

export async function readWorkers(redis: Redis, prefix: string): Promise<QueueWorker[]> {
  const ids = await redis.hkeys(`${prefix}:workers`)
  if (ids.length === 0) return []
  const values = await redis.mget(...ids.map((id) => `${prefix}:worker:${id}`))
  return values.flatMap((value) => {
    if (value === null) return []
    const worker = JSON.parse(value) as QueueWorker
    return [{ ...worker, code: shownCode(worker.code) }]
  })
}
