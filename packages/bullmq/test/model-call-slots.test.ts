import { setTimeout as sleep } from 'node:timers/promises'

import { Redis } from 'ioredis'
import { expect, vi, onTestFinished } from 'vitest'

import { startRedis, withPrograms, type RedisServer } from '../../../test/kit/index.ts'
import { ModelCallSlots } from '../src/worker/model-call-slots.ts'

const { it } = withPrograms('redis-server')

it('limits the concurrent calls of all workers to an endpoint', async () => {
  const redis = await startRedis()
  let going = 0
  let most = 0
  const call = async ({ slots }: ReturnType<typeof slotsOf>): Promise<void> => {
    const end = await slots.begin({ endpoint, signal: never })
    going += 1
    most = Math.max(most, going)
    await sleep(5)
    going -= 1
    end()
  }
  const workers = [slotsOf(redis), slotsOf(redis)]
  const calls = workers.flatMap((worker) => Array.from({ length: 30 }, async () => call(worker)))
  await Promise.all(calls)
  expect(most).toBe(3)
})

it('has separate slots for each endpoint, whatever the path of a rollout', async () => {
  const redis = await startRedis()
  const { slots } = slotsOf(redis, { limit: 1 })
  await slots.begin({ endpoint, signal: never })
  await slots.begin({ endpoint: 'http://other.test/v1/chat/completions', signal: never })
  const same = slots.begin({ endpoint: 'http://policy.test:8000/r1/chat', signal: never })
  await expect(Promise.race([same, sleep(300, 'waits')])).resolves.toBe('waits')
})

it('takes no slot for an aborted call', async () => {
  const redis = await startRedis()
  const { slots } = slotsOf(redis, { limit: 1 })
  const end = await slots.begin({ endpoint, signal: never })
  const controller = new AbortController()
  const aborted = slots.begin({ endpoint, signal: controller.signal })
  controller.abort(new Error('cancelled'))
  await expect(aborted).rejects.toThrow('cancelled')
  end()
  await slots.begin({ endpoint, signal: never })
})

it('releases the slots of a worker that has exited', async () => {
  const redis = await startRedis()
  const gone = slotsOf(redis, { limit: 1, holdMs: 400 })
  const lives = slotsOf(redis, { limit: 1, holdMs: 400 })
  await gone.slots.begin({ endpoint, signal: never })
  gone.leave()
  await lives.slots.begin({ endpoint, signal: never })
})

it('starts no call while Redis is unreachable, and continues afterwards', async () => {
  const redis = await startRedis({ aof: true })
  const { slots } = slotsOf(redis)
  await redis.kill()
  const began = vi.fn<() => void>()
  const call = slots.begin({ endpoint, signal: never }).then(began)
  await sleep(300)
  expect(began).not.toHaveBeenCalled()
  await redis.restart()
  await call
  expect(began).toHaveBeenCalledOnce()
})

it('keeps the slot of a long call', { tags: 'slow' }, async () => {
  const redis = await startRedis()
  // Long enough that a busy machine renews it in time.
  const holdMs = 6_000
  const { slots } = slotsOf(redis, { limit: 1, holdMs })
  await slots.begin({ endpoint, signal: never })
  const second = slots.begin({ endpoint, signal: never })
  await expect(Promise.race([second, sleep(holdMs * 1.5, 'waits')])).resolves.toBe('waits')
})

const endpoint = 'http://policy.test:8000/v1/chat/completions'
const never: AbortSignal = new AbortController().signal

interface SlotsUnderTest {
  readonly slots: ModelCallSlots
  readonly leave: () => void
}

/** The slots as one worker uses them. */
function slotsOf(
  redis: RedisServer,
  options: { limit?: number; holdMs?: number } = {},
): SlotsUnderTest {
  const { limit = 3, holdMs = 2000 } = options
  const connection = new Redis(redis.url, { retryStrategy: () => 50, maxRetriesPerRequest: 0 })
  connection.on('error', () => undefined)
  const slots = new ModelCallSlots(connection, { prefix: 'osmosis', limit, holdMs })
  const leave = (): void => {
    slots.close()
    connection.disconnect()
  }
  onTestFinished(leave)
  return { slots, leave }
}
