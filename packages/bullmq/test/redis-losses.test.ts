import { setTimeout as sleep } from 'node:timers/promises'
import { RolloutQueue } from '@osmosis/bullmq/records'
import { startPolicyServer } from '@osmosis/testing'
import { startRedis, withPrograms } from '../../../test/kit/index.ts'
import { expect, onTestFinished } from 'vitest'

import { startWorker, deliverInto } from './asking-worker.ts'
import { entry, lookInto, request, runOf, samples, succeeded, taker } from './queue-under-test.ts'

const { it } = withPrograms('redis-server')

it('loses nothing when Redis is killed and restarted with AOF while rollouts run and wait', async () => {
  const redis = await startRedis({ aof: true })
  const queue = await RolloutQueue.open({ url: redis.url })
  onTestFinished(async () => queue.close())
  const delivered = deliverInto(queue)
  const answer = Promise.withResolvers<string>()
  await using policy = await startPolicyServer(async () => answer.promise)
  await startWorker(redis, { concurrency: 2, lockDurationMs: 30_000 })
  const ids = Array.from({ length: 4 }, (_, n) => `k-${n}`)
  for (const id of ids) {
    const asked = { ...request, rolloutId: id, chatCompletionsUrl: policy.url }
    await queue.accept(entry({ id, request: asked }))
  }
  const call = await policy.waitForRequest(1)
  await redis.kill()
  // Their outcomes wait.
  answer.resolve('yes')
  await call.closed
  await redis.restart()

  await expect.poll(() => delivered.toSorted()).toEqual(ids.map((id) => `${id} success`))
  expect(policy.requests.map(({ headers }) => String(headers['x-rollout-id'])).toSorted()).toEqual(
    ids,
  )
})

it('answers that the queue is unavailable while Redis is stopped', async () => {
  const redis = await startRedis()
  const queue = await RolloutQueue.open({ url: redis.url })
  onTestFinished(async () => queue.close())
  redis.signal('SIGSTOP')
  await expect(queue.accept(entry())).rejects.toMatchObject({ code: 'queue_unavailable' })
  redis.signal('SIGCONT')
  await expect
    .poll(async () => (await queue.accept(entry()).catch(() => undefined))?.answer)
    .toBe('{"accepted":true}')
})

it('runs each step of a rollout in a Redis that has lost all scripts', async () => {
  const redis = await startRedis()
  const queue = await RolloutQueue.open({ url: redis.url })
  onTestFinished(async () => queue.close())
  const client = lookInto(redis)
  const pass = async (id: string): Promise<void> => {
    await queue.accept(entry({ id }))
    const run = runOf(await queue.runs.take(id, taker('w1')), id)
    expect(await queue.runs.begin(run)).toBe(true)
    expect(await queue.runs.mark(run)).toBe(true)
    expect(await queue.runs.settleWorkflow(run, succeeded, samples(), false)).toBe('stored')
  }
  await pass('r1')
  await pass('r2')
  await client.script('FLUSH')
  await pass('r3')
})

it(
  'ends a rollout whose outcome waited too long for Redis, without a second execution',
  { tags: 'slow' },
  async () => {
    const redis = await startRedis({ aof: true })
    const queue = await RolloutQueue.open({ url: redis.url })
    onTestFinished(async () => queue.close())
    const answer = Promise.withResolvers<string>()
    await using policy = await startPolicyServer(async () => answer.promise)
    await startWorker(redis, { patienceMs: 300 })
    await queue.accept(entry({ request: { ...request, chatCompletionsUrl: policy.url } }))
    const call = await policy.waitForRequest(0)
    await redis.kill()
    answer.resolve('yes')
    await call.closed
    await sleep(1_500)
    await redis.restart()
    await expect
      .poll(async () => (await queue.record('r1').catch(() => undefined))?.errorMessage)
      .toBe('the worker was lost; the samples of the rollout were in it, so they are not graded')
    expect(policy.requests).toHaveLength(1)
  },
)

it('runs 100 rollouts while all events and messages are lost', { tags: 'slow' }, async () => {
  const redis = await startRedis()
  const queue = await RolloutQueue.open({ url: redis.url })
  onTestFinished(async () => queue.close())
  const delivered = deliverInto(queue)
  await using policy = await startPolicyServer(() => 'yes')
  await startWorker(redis)
  await startWorker(redis)
  const client = lookInto(redis)
  const over = new AbortController()
  const cutting = (async () => {
    while (!over.signal.aborted) {
      await client.xtrim('osmosis:rollouts:events', 'MAXLEN', 0)
      await client.xtrim('osmosis:results:events', 'MAXLEN', 0)
      await client.client('KILL', 'TYPE', 'pubsub')
      await sleep(5)
    }
  })()
  const ids = Array.from({ length: 100 }, (_, n) => `t-${n}`)
  for (const id of ids) {
    const asked = { ...request, rolloutId: id, chatCompletionsUrl: policy.url }
    await queue.accept(entry({ id, request: asked }))
  }
  await expect.poll(() => delivered.toSorted()).toEqual(ids.map((id) => `${id} success`).toSorted())
  over.abort()
  await cutting
  expect(policy.requests).toHaveLength(100)
})
