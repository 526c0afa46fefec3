import { setTimeout as sleep } from 'node:timers/promises'

import { startRolloutWorker, type RolloutWorkerOptions } from '@osmosis/bullmq'
import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  requireRolloutContext,
  toRolloutSample,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { startPolicyServer } from '@osmosis/testing'
import { expect, onTestFinished } from 'vitest'

import { startRedis, withPrograms, type RedisServer } from '../../../test/kit/index.ts'
import { RolloutQueue } from '../src/queue/rollout-queue.ts'
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

it('runs 50 rollouts while all events and messages are lost', { tags: 'slow' }, async () => {
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
      await client.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await sleep(5)
    }
  })()
  const ids = Array.from({ length: 50 }, (_, n) => `t-${n}`)
  for (const id of ids) {
    const asked = { ...request, rolloutId: id, chatCompletionsUrl: policy.url }
    await queue.accept(entry({ id, request: asked }))
  }
  await expect.poll(() => delivered.toSorted()).toEqual(ids.map((id) => `${id} success`).toSorted())
  over.abort()
  await cutting
  expect(policy.requests).toHaveLength(50)
})

it('closes servers and workers although Redis was killed', async () => {
  const redis = await startRedis()
  await using policy = await startPolicyServer(() => new Promise(() => {}))
  const queue = await RolloutQueue.open({ url: redis.url })
  deliverInto(queue)
  const worker = await startRolloutWorker({
    url: redis.url,
    backend: new LocalBackend({ workflow: Asks }),
    concurrency: 4,
    code: 'c1',
    lockDurationMs,
  })
  await queue.accept(entry({ request: { ...request, chatCompletionsUrl: policy.url } }))
  await policy.waitForRequest(0)
  await redis.kill()
  const closing = Promise.all([queue.close(), worker.close(AbortSignal.abort())])
  await expect(closing).resolves.toBeDefined()
})

/** How long a worker may be silent. */
const lockDurationMs = 2_000

class Asks extends AgentWorkflow {
  async run(): Promise<void> {
    const context = requireRolloutContext('Asks')
    context.registerSampleSource('main', {
      getSample: (id) => toRolloutSample({ id, messages: [] }),
    })
    await context.policy('main').complete({ messages: [{ role: 'user', content: 'go' }] })
  }
}

class One extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(1)
  }
}

/** A worker for rollouts that make one model call. */
async function startWorker(
  { url }: RedisServer,
  options: Partial<RolloutWorkerOptions> = {},
): Promise<void> {
  const workflowConfig = defineWorkflowConfig({ name: 'asks' })
  const worker = await startRolloutWorker({
    url,
    backend: new LocalBackend({ workflow: Asks, workflowConfig, grader: One }),
    concurrency: 20,
    code: 'c1',
    lockDurationMs,
    stalledIntervalMs: 500,
    ...options,
  })
  // Its rollouts are not waited for: a worker that lost its Redis would wait for long.
  onTestFinished(async () => worker.close(AbortSignal.abort()))
}

/** Delivers each outcome once, as servers do. */
function deliverInto(queue: RolloutQueue): string[] {
  const delivered: string[] = []
  queue.deliverResults(
    async (id) => {
      const record = await queue.record(id)
      if (record === undefined) return
      if (record.status === 'grading') await queue.records.allowGrading(id)
      else if (record.delivered.grader === undefined) {
        await queue.records.noteDelivered(id, 'grader', record.status)
        delivered.push(`${id} ${record.status}`)
      }
    },
    { concurrency: 20 },
  )
  return delivered
}
