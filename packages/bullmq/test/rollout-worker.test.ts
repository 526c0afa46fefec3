import { randomBytes } from 'node:crypto'

import { QueueKeys, startRolloutWorker } from '@osmosis/bullmq'
import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  GroupGrader,
  OsmosisError,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { startPolicyServer } from '@osmosis/testing'
import { Queue } from 'bullmq'
import { expect, onTestFinished, vi } from 'vitest'

import {
  type LogLine,
  recordingLogger,
  type RedisServer,
  withPrograms,
} from '../../../test/kit/index.ts'
import { RolloutQueue } from '../src/queue/rollout-queue.ts'
import { entry, lookInto, openQueue, request } from './queue-under-test.ts'

const { it } = withPrograms('redis-server')

class Asks extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const context = requireRolloutContext('Asks')
    context.registerSampleSource('main', {
      getSample: (id) => toRolloutSample({ id, messages: [] }),
    })
    await context.policy('main').complete({ messages: [...ctx.prompt] as never })
  }
}

class One extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(1)
  }
}

const workflowConfig = defineWorkflowConfig({ name: 'asks' })
const backend = (): LocalBackend =>
  new LocalBackend({ workflow: Asks, workflowConfig, grader: One })

async function startWorker(
  { url }: RedisServer,
  options: Partial<Parameters<typeof startRolloutWorker>[0]> = {},
): ReturnType<typeof startRolloutWorker> {
  const worker = await startRolloutWorker({
    url,
    backend: backend(),
    concurrency: 10,
    code: 'c1',
    // No worker is considered lost because its machine is busy.
    lockDurationMs: 30_000,
    stalledIntervalMs: 500,
    ...options,
  })
  onTestFinished(async () => worker.close())
  return worker
}

it('refuses a group grader, because a queue distributes the attempts', async () => {
  class Ranks extends GroupGrader {
    async gradeGroup(): Promise<void> {}
  }
  const options = { url: 'redis://127.0.0.1:1', concurrency: 1, code: 'c1' }
  await expect(
    startRolloutWorker({
      ...options,
      backend: new LocalBackend({ workflow: Asks, workflowConfig, grader: Ranks }),
    }),
  ).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringContaining('a GroupGrader must see all of them'),
  })
})

it('may check for silent workers twice in its interval, because BullMQ skips checks', async () => {
  const { redis } = await openQueue()
  await startWorker(redis, { stalledIntervalMs: 10_000 })
  const client = lookInto(redis)
  // While it exists no worker checks, not even the one that set it and checks slightly too early.
  await expect.poll(async () => client.keys('*:stalled-check')).toHaveLength(1)
  const [gate = ''] = await client.keys('*:stalled-check')
  const leftMs = await client.pttl(gate)
  expect(leftMs).toBeGreaterThan(0)
  expect(leftMs).toBeLessThanOrEqual(5_000)
})

it('grades a rollout immediately when no completion is delivered', async () => {
  const { queue, redis } = await openQueue()
  await using policy = await startPolicyServer(() => 'yes')
  await startWorker(redis)
  const asked = { ...request, chatCompletionsUrl: policy.url }
  await queue.accept(entry({ gradesAtOnce: true, request: asked }))
  await expect.poll(async () => (await queue.record('r1'))?.status).toBe('success')
})

it('gives graders what run() returned', async () => {
  class Returns extends Asks {
    override async run(ctx: AgentWorkflowContext): Promise<never> {
      await super.run(ctx)
      return { said: 'yes' } as never
    }
  }
  class Reads extends Grader {
    async grade(ctx: GraderContext): Promise<void> {
      expect(ctx.output).toEqual({ said: 'yes' })
      ctx.setReward(1)
    }
  }
  const { queue, redis } = await openQueue()
  await using policy = await startPolicyServer(() => 'yes')
  await startWorker(redis, {
    backend: new LocalBackend({ workflow: Returns, workflowConfig, grader: Reads }),
  })
  const asked = { ...request, chatCompletionsUrl: policy.url }
  await queue.accept(entry({ gradesAtOnce: true, request: asked }))
  await expect.poll(async () => (await queue.record('r1'))?.status).toBe('success')
})

it('cancels the rollouts of a worker with the given reason', async () => {
  const { queue, redis } = await openQueue()
  await using policy = await startPolicyServer(() => new Promise(() => {}))
  await startWorker(redis)
  const asked = { ...request, chatCompletionsUrl: policy.url }
  for (const id of ['r1', 'r2']) {
    await queue.accept(entry({ id, request: { ...asked, rolloutId: id } }))
  }
  const [call] = await Promise.all([policy.waitForRequest(0), policy.waitForRequest(1)])
  expect([...(await queue.cancel({ ids: ['r1'] }))]).toEqual([['r1', 'cancelled_running']])
  await queue.cancel(
    { ids: ['r2'] },
    new OsmosisError('server_shutdown', 'the cluster is going down'),
  )
  await expect.poll(async () => (await queue.record('r1'))?.status).toBe('cancelled')
  await expect
    .poll(async () => (await queue.record('r2'))?.errorMessage)
    .toBe('the cluster is going down')
  await call.closed
})

it('runs a rollout once when its job returns while it is being taken', async () => {
  const { queue, redis } = await openQueue()
  await using policy = await startPolicyServer(() => 'yes')
  const asked = { ...request, chatCompletionsUrl: policy.url, grade: false }
  const ids = Array.from({ length: 20 }, (_, n) => `r${n}`)
  for (const id of ids) await queue.accept(entry({ id, request: { ...asked, rolloutId: id } }))
  const jobs = new Queue('rollouts', { connection: { url: redis.url }, prefix: 'osmosis' })
  onTestFinished(async () => jobs.close())
  await jobs.addBulk(ids.map((id) => ({ name: 'rollout', data: { id } })))

  await startWorker(redis, { concurrency: 100 })
  await expect.poll(async () => jobs.getJobCountByTypes('wait', 'active')).toBe(0)
  for (const id of ids) {
    expect(await queue.record(id)).toMatchObject({ status: 'success', run: 1, calls: 1 })
  }
})

it('refuses rollouts of other code, logs that once, and leaves them to a worker with that code', async () => {
  const { queue, redis } = await openQueue()
  await using policy = await startPolicyServer(() => 'yes')
  const lines: LogLine[] = []
  const logger = recordingLogger(lines)
  await startWorker(redis, { code: 'old', logger })
  const asked = { ...request, chatCompletionsUrl: policy.url, grade: false }
  for (const id of ['r1', 'r2']) {
    await queue.accept(entry({ id, request: { ...asked, rolloutId: id } }))
  }
  await expect
    .poll(() =>
      lines.filter(({ message }) => message.includes('was refused')).map(({ fields }) => fields),
    )
    .toEqual([{ code: 'c1', own_code: 'old' }])
  expect(policy.requests).toEqual([])
  await startWorker(redis)
  await expect.poll(async () => (await queue.counts()).queued).toBe(0)
  expect((await queue.workers()).map(({ code }) => code).toSorted()).toEqual(['c1', 'old'])
})

it('limits the concurrent rollouts of all workers together', async () => {
  const { queue, redis } = await openQueue()
  let now = 0
  let most = 0
  const two = Promise.withResolvers<undefined>()
  await using policy = await startPolicyServer(async () => {
    most = Math.max(most, (now += 1))
    if (now === 2) two.resolve(undefined)
    await two.promise
    await new Promise((resolve) => setTimeout(resolve, 50))
    now -= 1
    return 'yes'
  })
  await expect(queue.setMaxRollouts(0)).rejects.toMatchObject({ code: 'invalid_config' })
  await queue.setMaxRollouts(2)
  await Promise.all([startWorker(redis), startWorker(redis)])
  const asked = { ...request, chatCompletionsUrl: policy.url, grade: false }
  const ids = Array.from({ length: 10 }, (_, n) => `m-${n}`)
  for (const id of ids) await queue.accept(entry({ id, request: { ...asked, rolloutId: id } }))
  // A call that is still open when the policy closes would be made again for a minute and a half.
  for (const id of ids) {
    await expect.poll(async () => (await queue.record(id))?.hasWorkflow).toBe(true)
  }
  expect([policy.requests.length, most]).toEqual([10, 2])
})

it('counts the deadline from admission, on the clock of Redis', async () => {
  const { queue, redis } = await openQueue()
  await using policy = await startPolicyServer(() => new Promise(() => {}))
  await queue.accept(
    entry({ request: { ...request, chatCompletionsUrl: policy.url, agentTimeoutSeconds: 3 } }),
  )
  const client = lookInto(redis)
  // Admitted two seconds earlier on the clock of Redis.
  await client.hincrby(queue.records.key('r1'), 'admitted_at', -2_000)
  await startWorker(redis)
  await expect
    .poll(async () => (await queue.record('r1'))?.errorMessage)
    .toMatch(/^workflow exceeded its 3s deadline \([23]\.\ds of it spent queued\)$/)
})

it('drains: ends its rollouts, takes no more and is no longer listed', async () => {
  const { queue, redis } = await openQueue()
  const answer = Promise.withResolvers<string>()
  await using policy = await startPolicyServer(async () => answer.promise)
  queue.deliverResults(async (id) => queue.records.allowGrading(id), { concurrency: 10 })
  const worker = await startWorker(redis)
  const asked = { ...request, chatCompletionsUrl: policy.url }
  await queue.accept(entry({ request: asked }))
  await policy.waitForRequest(0)
  const closing = worker.close()
  await queue.accept(entry({ id: 'r2', request: { ...asked, rolloutId: 'r2' } }))
  answer.resolve('yes')
  await closing
  expect(await queue.record('r1')).toMatchObject({ status: 'success', reward: 1 })
  expect(await queue.record('r2')).toMatchObject({ status: 'queued', run: 0 })
  expect(await queue.workers()).toEqual([])
})

it('leaves rollouts to other workers, and fails those that had called the policy', async () => {
  const { queue, redis } = await openQueue()
  const briefly = { lockDurationMs: 2_000 }
  const gate = Promise.withResolvers<void>()
  await using policy = await startPolicyServer(() => new Promise(() => {}))
  class Waits extends AgentWorkflow {
    async run(): Promise<void> {
      await gate.promise
    }
  }
  const silent = new LocalBackend({ workflow: Waits, workflowConfig })
  const first = await startWorker(redis, { ...briefly, backend: silent, concurrency: 1 })
  await queue.accept(entry({ request: { ...request, grade: false } }))
  await expect.poll(async () => (await queue.record('r1'))?.status).toBe('running')
  const second = await startWorker(redis, { ...briefly, concurrency: 1 })
  const asked = { ...request, rolloutId: 'r2', chatCompletionsUrl: policy.url }
  await queue.accept(entry({ id: 'r2', request: asked }))
  await policy.waitForRequest(0)
  await second.close(AbortSignal.abort())
  await first.close(AbortSignal.abort())
  gate.resolve()
  await using answering = await startPolicyServer(() => 'yes')
  await startWorker(redis, {
    ...briefly,
    backend: new LocalBackend({ workflow: Waits, workflowConfig }),
  })
  await expect.poll(async () => (await queue.record('r1'))?.status).toBe('success')
  expect(await queue.record('r1')).toMatchObject({ run: 2 })
  await expect
    .poll(async () => (await queue.record('r2'))?.errorMessage)
    .toMatch(/^the worker was lost after 1 model call;/)
  expect(answering.requests).toEqual([])
})

it('leaves nothing open when its start fails', async () => {
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  const { redis } = await openQueue()
  const client = lookInto(redis)
  const channels = ['resetchannels', '&osmosis:server:*', '&osmosis:wake']
  await client.acl('SETUSER', 'team', 'on', '>secret', '~*', '+@all', ...channels)
  const url = redis.url.replace('//', '//team:secret@')
  const limits = { concurrency: 1, modelCallsPerEndpoint: 1 }
  const start = startRolloutWorker({ ...limits, url, backend: backend(), code: 'c1' })
  await expect(start).rejects.toMatchObject({ code: 'queue_unavailable' })
  const left = async (): Promise<string> => String(await client.client('LIST'))
  await expect.poll(left).not.toContain('user=team')
})

it('leaves rollouts that it cannot decrypt to workers with the key', async () => {
  const [old, next] = [randomBytes(32), randomBytes(32)]
  const { redis } = await openQueue({ keys: new QueueKeys([old, next]) })
  const log: LogLine[] = []
  const without = { keys: new QueueKeys([old]), logger: recordingLogger(log) }
  await startWorker(redis, without)
  const newer = await RolloutQueue.open({ url: redis.url, keys: new QueueKeys([next, old]) })
  onTestFinished(async () => newer.close())
  await using policy = await startPolicyServer(() => 'yes')
  const asked = { ...request, chatCompletionsUrl: policy.url }
  await newer.accept(entry({ gradesAtOnce: true, request: asked }))
  const refused = 'a rollout was refused: it is encrypted with a queue key'
  await expect.poll(() => log.map(({ message }) => message).join()).toContain(refused)
  expect(await newer.record('r1')).toMatchObject({ status: 'queued', run: 0 })

  await startWorker(redis, { keys: new QueueKeys([next, old]) })
  await expect.poll(async () => (await newer.record('r1'))?.status).toBe('success')
  expect(await newer.record('r1')).toMatchObject({ run: 1 })
  expect(log.filter(({ message }) => message.startsWith(refused))).toHaveLength(1)
})
