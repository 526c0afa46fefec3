import { setTimeout as sleep } from 'node:timers/promises'

import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  LocalBackend,
  requireRolloutContext,
  toRolloutSample,
  type GraderContext,
} from '@osmosis/core'
import { createBullBackend, startRolloutWorker, type RolloutWorkerOptions } from '@osmosis/bullmq'
import { RolloutQueue } from '@osmosis/bullmq/internal'
import { startPolicyServer } from '@osmosis/testing'
import { type RedisServer, startRedis, withPrograms } from '@osmosis/testing/kit'
import { expect, onTestFinished } from 'vitest'

import { entry, lookInto, request, runOf, samples, succeeded, taker } from './queue-under-test.ts'

const { it } = withPrograms('redis-server')

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
  onTestFinished(async () => worker.close())
}

/** Tells each outcome once, as fronts do. */
function tellInto(queue: RolloutQueue): string[] {
  const told: string[] = []
  queue.tellResults(async (id) => {
    const record = await queue.record(id)
    if (record === undefined) return
    if (record.status === 'grading') await queue.records.allowGrading(id)
    else if (record.told.grader === undefined) {
      await queue.records.told(id, 'grader', record.status)
      told.push(`${id} ${record.status}`)
    }
  }, 20)
  return told
}

it('loses nothing when Redis is killed and restarted with AOF while rollouts run and wait', async () => {
  const redis = await startRedis({ aof: true })
  const queue = await RolloutQueue.open({ url: redis.url })
  onTestFinished(async () => queue.close())
  const told = tellInto(queue)
  const answer = Promise.withResolvers<string>()
  await using policy = await startPolicyServer(async () => answer.promise)
  await startWorker(redis, { concurrency: 10 })
  await startWorker(redis, { concurrency: 10 })
  const ids = Array.from({ length: 30 }, (_, n) => `k-${n}`)
  for (const id of ids) {
    const asked = { ...request, rolloutId: id, chatCompletionsUrl: policy.url }
    await queue.accept(entry({ id, request: asked }))
  }
  await policy.waitForRequest(19)
  await redis.kill()
  // Their outcomes wait, for longer than a worker may be silent.
  answer.resolve('yes')
  await sleep(lockDurationMs + 500)
  await redis.restart()

  await expect.poll(() => told.toSorted()).toEqual(ids.map((id) => `${id} success`).toSorted())
  expect(policy.requests.map(({ headers }) => String(headers['x-rollout-id'])).toSorted()).toEqual(
    ids.toSorted(),
  )
})

it('ends a rollout whose outcome waited too long for Redis, and runs it no second time', async () => {
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
    .toBe('the worker was lost; the rollout was in it, and is not graded')
  expect(policy.requests).toHaveLength(1)
})

it('needs neither events nor messages: all are trimmed and cut off while 200 rollouts run', async () => {
  const redis = await startRedis()
  await using policy = await startPolicyServer(() => 'yes')
  const front = await createBullBackend({ url: redis.url, code: 'c1' })
  onTestFinished(async () => front.close())
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
  const ends: string[] = []
  await Promise.all(
    Array.from({ length: 200 }, async (_, n) =>
      front.execute(
        { ...request, rolloutId: `t-${n}`, chatCompletionsUrl: policy.url },
        {
          workflowFinished: async () => {},
          gradingFinished: async ({ status }) => void ends.push(status),
        },
      ),
    ),
  )
  over.abort()
  await cutting
  expect(ends).toEqual(Array.from({ length: 200 }, () => 'success'))
  expect(policy.requests).toHaveLength(200)
})

it('a front that waits for rollouts waits for Redis as well, and knows when that has lost them', async () => {
  const cases = [
    [true, /^success$/],
    [false, /^the Redis of the queue has lost the rollout/],
  ] as const
  for (const [aof, said] of cases) {
    const redis = await startRedis({ aof })
    const answer = Promise.withResolvers<string>()
    await using policy = await startPolicyServer(async () => answer.promise)
    const front = await createBullBackend({ url: redis.url, code: 'c1' })
    onTestFinished(async () => front.close())
    await startWorker(redis)
    const ends: string[] = []
    const executed = front.execute(
      { ...request, chatCompletionsUrl: policy.url },
      {
        workflowFinished: async ({ failure }) => void ends.push(failure?.message ?? 'success'),
        gradingFinished: async ({ status }) => void ends.push(status),
      },
    )
    await policy.waitForRequest(0)
    await redis.kill()
    answer.resolve('yes')
    await sleep(lockDurationMs)
    await redis.restart()
    await executed
    expect(ends[0]).toMatch(said)
    expect(ends[1]).toBe(aof ? 'success' : 'failure')
  }
})

it('answers that the queue is not available while Redis stands still', async () => {
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

it('takes each step of a rollout in a Redis that has forgotten all scripts meanwhile', async () => {
  const redis = await startRedis()
  const queue = await RolloutQueue.open({ url: redis.url })
  onTestFinished(async () => queue.close())
  const client = lookInto(redis)
  const pass = async (id: string): Promise<void> => {
    await queue.accept(entry({ id }))
    const run = runOf(await queue.runs.take(id, taker('w1')), id)
    expect(await queue.runs.begin(run)).toBe(true)
    expect(await queue.runs.mark(run)).toBe(true)
    expect(await queue.runs.settleWorkflow(run, succeeded, samples(), false)).toBe('kept')
  }
  await pass('r1')
  await pass('r2')
  await client.script('FLUSH')
  await pass('r3')
})

it('ends fronts and workers although Redis is gone', async () => {
  const redis = await startRedis()
  await using policy = await startPolicyServer(() => new Promise(() => {}))
  const queue = await RolloutQueue.open({ url: redis.url })
  tellInto(queue)
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
