import { EventEmitter } from 'node:events'

import { isOsmosisError } from '@osmosis/core'
import type { Redis } from 'ioredis'
import { beforeEach, describe, expect, it, vi } from 'vitest'

import { Replication } from '../src/connection/replication.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] })
  return () => void vi.useRealTimers()
})

/** A connection to a stand-in of Redis with one replica, which answers or does not. */
function connection() {
  const redis = {
    replicas: 'slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0\r\n',
    history: 'a',
    answers: true,
    informs: true,
    waits: 0,
    reopened: 0,
    refusal: undefined as Error | undefined,
    /** Settles each question that waits for the replica. */
    onWait: async (): Promise<void> => {},
  }
  const client = Object.assign(new EventEmitter(), {
    info: async () => {
      if (!redis.informs) throw new Error('LOADING Redis is loading the dataset in memory')
      return `${redis.replicas}master_replid:${redis.history}\r\n`
    },
    disconnect: () => {
      redis.reopened += 1
    },
    set: async () => {
      if (redis.refusal !== undefined) throw redis.refusal
    },
    wait: async () => {
      redis.waits += 1
      const { answers } = redis
      await redis.onWait()
      return answers ? 1 : 0
    },
  })
  const replication = new Replication(client as unknown as Redis, 'k', 'redis://h:1')
  const said: boolean[] = []
  replication.onChange((isReplicated) => said.push(isReplicated))
  const confirmed = async (since = replication.since): Promise<boolean> => {
    try {
      await replication.confirm(since)
      return true
    } catch (error) {
      if (isOsmosisError(error) && error.code === 'queue_unavailable') return false
      throw error
    }
  }
  const lose = (): void => void client.emit('close')
  return { redis, replication, said, confirmed, lose }
}

/** Longer than the time between two looks for replicas. */
const aWhile = (): void => void vi.advanceTimersByTime(1_001)

describe('what a connection has stored is confirmed', () => {
  it('at once where there are no replicas, or none that is ready', async () => {
    for (const replicas of ['', 'slave0:ip=h,port=1,state=wait_bgsave,offset=0,lag=0\r\n']) {
      const { redis, confirmed, said } = connection()
      redis.replicas = replicas
      redis.answers = false
      expect(await confirmed()).toBe(true)
      expect([redis.waits, said]).toEqual([0, []])
    }
  })

  it('by a replica that came later', async () => {
    const { redis, confirmed } = connection()
    const { replicas } = redis
    redis.replicas = ''
    await confirmed()
    redis.replicas = replicas
    await confirmed()
    expect(redis.waits).toBe(0)
    aWhile()
    await confirmed()
    expect(redis.waits).toBe(1)
  })

  it('at each time by a replica that comes to a primary which has just changed', async () => {
    const { redis, confirmed, lose } = connection()
    const { replicas } = redis
    redis.replicas = ''
    redis.history = 'before'
    await confirmed()
    redis.history = 'after'
    lose()
    await confirmed()
    redis.replicas = replicas
    await confirmed()
    expect(redis.waits).toBe(1)
  })

  it('by a replica that is there but slow, unless it was waited for in vain', async () => {
    const { redis, confirmed } = connection()
    redis.replicas = redis.replicas.replace('lag=0', 'lag=7')
    expect(await confirmed()).toBe(true)
    expect(redis.waits).toBe(1)
    redis.answers = false
    for (let second = 0; second < 15; second += 1) {
      expect(await confirmed()).toBe(false)
      aWhile()
    }
    for (let time = 0; time < 3; time += 1) {
      expect(await confirmed()).toBe(true)
      aWhile()
    }
  })

  it('by the replica that was there when Redis does not say whether it is', async () => {
    const { redis, confirmed } = connection()
    await confirmed()
    redis.informs = false
    redis.answers = false
    aWhile()
    expect(await confirmed()).toBe(false)
  })

  it('with one question for all that wait', async () => {
    const { redis, confirmed } = connection()
    const answer = Promise.withResolvers<void>()
    redis.onWait = async () => answer.promise
    const first = confirmed()
    await vi.waitUntil(() => redis.waits === 1)
    const others = Array.from({ length: 50 }, async () => confirmed())
    answer.resolve()
    expect(await Promise.all([first, ...others])).not.toContain(false)
    expect(redis.waits).toBe(2)
  })
})

describe('what a connection has stored is not confirmed', () => {
  it('by a connection that was lost since', async () => {
    const { redis, replication, confirmed, lose } = connection()
    const { since } = replication
    lose()
    expect(await confirmed(since)).toBe(false)
    redis.onWait = async () => lose()
    expect(await confirmed()).toBe(false)
  })

  it('by the primary that had replicas, on another connection, but by one that took its place', async () => {
    const { redis, confirmed, lose, said } = connection()
    await confirmed()
    redis.answers = false
    redis.replicas = ''
    lose()
    expect(await confirmed()).toBe(false)
    redis.history = 'b'
    lose()
    expect(await confirmed()).toBe(true)
    expect(said).toEqual([])
  })

  it('and asks for the primary again while no replica answers', async () => {
    const { redis, confirmed } = connection()
    await confirmed()
    redis.answers = false
    redis.replicas = ''
    for (let second = 0; second < 8; second += 1) {
      aWhile()
      await confirmed()
    }
    expect(redis.reopened).toBe(2)
  })

  it('by a Redis that refuses to write, and the error does not say that nothing was stored', async () => {
    const { redis, replication } = connection()
    redis.refusal = new Error('READONLY You are a replica')
    const refused = replication.confirm(replication.since)
    await expect(refused).rejects.toThrow('redis://h:1 stores may be lost: READONLY')
    await expect(refused).rejects.not.toHaveProperty('cause')
  })

  it('by a replica that is silent, until it answers again or 15 s are over, which is said once', async () => {
    const { redis, said, confirmed } = connection()
    const { replicas } = redis
    await confirmed()
    redis.answers = false
    redis.replicas = ''
    for (let second = 0; second < 14; second += 1) {
      expect(await confirmed()).toBe(false)
      aWhile()
    }
    // It waits only for a replica that is there.
    expect(redis.waits).toBe(2)
    aWhile()
    for (let time = 0; time < 3; time += 1) {
      expect(await confirmed()).toBe(true)
      aWhile()
    }
    expect(said).toEqual([false])

    redis.replicas = replicas
    redis.answers = true
    for (let time = 0; time < 3; time += 1) {
      aWhile()
      expect(await confirmed()).toBe(true)
    }
    expect(said).toEqual([false, true])
  })
})
