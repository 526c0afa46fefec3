import { expect, onTestFinished } from 'vitest'

import { RedisPair, withPrograms, type LogLine } from '../../../test/kit/index.ts'
import { RolloutQueue } from '../src/queue/rollout-queue.ts'
import { writeHeartbeat } from '../src/queue/worker-heartbeats.ts'
import { entry, lookInto, taker } from './queue-under-test.ts'
import { askPolicy, startServers, type ServerUnderTest, workflowOf } from './servers-under-test.ts'

const { it } = withPrograms('redis-server')

it('an outcome is told when a replica has it, and after a failover that loses it nothing is contradicted', async () => {
  const redis = await RedisPair.start()
  const gate = Promise.withResolvers<void>()
  const workflow = workflowOf(async (ctx) => {
    await askPolicy(ctx)
    await gate.promise
  })
  const { a, b, controller } = await startServers({ connection: { url: redis.url }, workflow })
  await accepted(a)
  await controller.until(() => controller.events.includes('policy call closed'))

  redis.freeze()
  gate.resolve()
  const record = lookInto(redis.primary)
  await expect.poll(async () => record.hget('osmosis:rollout:r1', 'status')).toBe('grading')
  expect((await a.post({ rollout_id: 'r2' })).status).toBe(503)
  expect(controller.callbacks).toEqual([])

  await redis.primary.kill()
  await redis.promote()
  expect(await controller.bodies()).toMatchObject([
    { rollout_id: 'r1', status: 'success' },
    { rollout_id: 'r1', status: 'success', sample: { reward: 1 } },
  ])
  expect(await b.get('/rollout/r1/status')).toMatchObject({ status: 'success', reward: 1 })
  expect(controller.policyHeaders).toHaveLength(1)
})

it.each(['planned', 'killed'] as const)(
  'servers are unhealthy while no primary answers, say so once, and go on by themselves (%s)',
  async (way) => {
    const redis = await RedisPair.start()
    const { a, controller } = await startServers({ connection: { url: redis.url } })
    const told = (): LogLine[] =>
      a.log.filter(({ message }) => message.startsWith('The Redis of the queue'))
    const health = async (): Promise<number> => (await fetch(`${a.url}/health`)).status
    await expect.poll(health).toBe(200)
    if (way === 'killed') await redis.primary.kill()
    else await redis.demote()
    await expect.poll(health).toBe(503)
    await expect.poll(told).not.toHaveLength(0)
    await redis.promote()
    await expect.poll(health).toBe(200)
    await expect.poll(async () => (await a.post()).status).toBe(202)
    expect(await controller.bodies()).toHaveLength(2)

    // Each once; on a busy machine also that a replica is slow.
    const lines = told().map(({ level, message }) => `${level} ${message}`)
    const said = way === 'planned' ? /^warn .*refuses: READONLY/ : /^warn .*does not answer/
    expect(lines.filter((line) => said.test(line))).toHaveLength(1)
    expect(lines.filter((line) => /^info .* stores again\.$/.test(line))).toHaveLength(1)
  },
)

it(
  'a worker is not lost because its sign of life expired while no primary answered',
  { tags: 'slow' },
  async () => {
    const redis = await RedisPair.start()
    const queue = await RolloutQueue.open({ url: redis.url })
    onTestFinished(async () => queue.close())
    await expect.poll(async () => tried(queue.accept(entry()))).toBe(true)
    const worker = { host: 'h', pid: 1, code: 'c1', concurrency: 1, active: 1, loopDelayMs: 0 }
    const lockMs = 2_000
    const taken = async (): Promise<unknown> =>
      queue.runs.take('r1', taker('w1', { lockMs })).catch(() => undefined)
    await expect.poll(taken).toMatchObject({ what: 'run' })
    await queue.records.ask((client) =>
      writeHeartbeat(client, 'osmosis', { ...worker, id: 'w1' }, lockMs),
    )
    const [served, gone] = [lookInto(redis.primary), lookInto(redis.replica)]
    // Long enough for a worker that is silent to be lost.
    const servedMs = async (): Promise<number> => {
      const [since, at] = await served.hmget('osmosis:served', 'since', 'at')
      return Number(at) - Number(since)
    }
    await expect.poll(servedMs, { timeout: 20_000 }).toBeGreaterThan(2 * lockMs)
    await redis.primary.kill()
    const pause = async (): Promise<number> => {
      const [seconds = 0] = await gone.time()
      return seconds * 1000 - Number(await gone.hget('osmosis:served', 'at'))
    }
    await expect.poll(pause, { timeout: 20_000 }).toBeGreaterThan(4_000)
    expect(await gone.exists('osmosis:worker:w1')).toBe(0)
    await redis.promote()

    const again = async (): Promise<unknown> =>
      queue.runs.take('r1', taker('w2', { lockMs })).catch(() => undefined)
    await expect.poll(again).toMatchObject({ what: 'busy' })
    // One that stays silent is lost after all.
    await expect.poll(again, { timeout: 20_000 }).toMatchObject({ what: 'run', run: 2 })
  },
)

/** Posts a rollout until it is accepted: on a busy machine the replica may answer too late for the first one. */
async function accepted(server: ServerUnderTest): Promise<void> {
  await expect.poll(async () => (await server.post()).status).toBe(202)
}

async function tried(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  )
}
