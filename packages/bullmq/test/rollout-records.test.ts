import { randomBytes } from 'node:crypto'

import { QueueKeys } from '@osmosis/bullmq'
import { toRolloutSample } from '@osmosis/core'
import { expect } from 'vitest'

import { withPrograms } from '../../../test/kit/index.ts'
import {
  entry,
  graded,
  lookInto,
  lost,
  openQueue,
  request,
  runOf,
  samples,
  succeeded,
  taker,
  storedGrading,
  storedWorkflow,
} from './queue-under-test.ts'

const { it } = withPrograms('redis-server')

/** Detects a lost worker immediately, although this Redis has just started. */
const gone = { lockMs: 0 }

async function alive(worker: string, url: { readonly url: string }): Promise<void> {
  await lookInto(url as never).set(`osmosis:worker:${worker}`, '{}', 'PX', 30_000)
}

it('accepts one of many concurrent requests with the same id', async () => {
  const { queue } = await openQueue()
  const results = await Promise.all(
    Array.from({ length: 20 }, async (_, n) =>
      queue.records.accept(entry({ digest: `d${n % 2}` })),
    ),
  )
  const count = (wanted: string): number => results.filter(({ result }) => result === wanted).length
  expect([count('new'), count('known'), count('contradicted')]).toEqual([1, 9, 10])
})

it('stores a conversation once, unless the grader changed it', async () => {
  const { queue, redis } = await openQueue()
  const { records, runs } = queue
  const long = (): string => randomBytes(20_000).toString('base64')
  const said = new Map(
    ['a', 'b'].map((id) => [id, toRolloutSample({ id, messages: [{ content: long() }] })]),
  )
  await records.accept(entry())
  const run = runOf(await runs.take('r1', taker('w1')))
  await runs.settleWorkflow(run, succeeded, said, true)
  const rewarded = new Map([...said].map(([id, sample]) => [id, { ...sample, reward: 1 }]))
  const [a, b] = rewarded.values()
  if (a === undefined || b === undefined) throw new Error('two samples')
  ;(b.messages as unknown[]).push({ content: 'changed by its grader' })
  b.extraFields['why'] = 'so'
  await runs.settleGrading(run, { ...graded, samples: rewarded })

  expect((await storedGrading(queue, 'r1'))?.samples).toEqual(rewarded)
  const size = async (field: string): Promise<number> =>
    lookInto(redis).hstrlen('osmosis:rollout:r1', field)
  expect(await size('samples')).toBeGreaterThan(40_000)
  expect(await size('grading')).toBeLessThan(25_000)
})

it('stores messages once that are in a conversation and in its trajectory', async () => {
  const { queue, redis } = await openQueue({ keys: new QueueKeys([randomBytes(32)]) })
  const { records, runs } = queue
  const message = (text: string) => ({ role: 'user' as const, content: text })
  const long = randomBytes(20_000).toString('base64')
  const said = toRolloutSample({
    id: 'main',
    messages: [message(long), message('as the agent has it'), message('and its last word')],
    trajectoryMessages: [message(long), message('as the policy received it')],
  })
  await records.accept(entry())
  const run = runOf(await runs.take('r1', taker('w1')))
  await runs.settleWorkflow(run, succeeded, new Map([['main', said]]), true)

  expect((await storedWorkflow(queue, 'r1'))?.samples.get('main')).toEqual(said)
  // Random text cannot be compressed, so two copies would be larger.
  expect(await lookInto(redis).hstrlen('osmosis:rollout:r1', 'samples')).toBeLessThan(25_000)
})

it('refuses all writes of an abandoned execution', async () => {
  const { queue } = await openQueue()
  const { records, runs } = queue
  await records.accept(entry())
  const first = runOf(await runs.take('r1', taker('w1')))
  const second = runOf(await runs.take('r1', taker('w2', gone)))
  expect(second.run).toBe(2)
  expect(await runs.begin(first)).toBe(false)
  expect(await runs.mark(first)).toBe(false)
  expect(await runs.look(first)).toMatchObject({ isCurrent: false })
  expect(await runs.settleWorkflow(first, succeeded, samples(), true)).toBe('stale')
  runs.count(first)
  await runs.settlePartial(first, samples())
  expect(await records.read('r1')).toMatchObject({ status: 'queued', calls: 0 })

  expect(await runs.mark(second)).toBe(true)
  expect(await runs.settleWorkflow(second, succeeded, samples(), true)).toBe('stored')
  expect(await records.read('r1')).toMatchObject({ status: 'grading', calls: 0 })
  expect(await runs.settleGrading(first, graded)).toBe('stale')
  expect(await runs.settleGrading(second, graded)).toBe('stored')
})

it('accepts the same outcome again, and no other', async () => {
  const { queue } = await openQueue()
  const { runs, records } = queue
  await records.accept(entry())
  const one = taker('w1')
  expect(await runs.take('r1', one)).toMatchObject({ what: 'run', run: 1 })
  expect(await runs.take('r1', one)).toMatchObject({ what: 'run', run: 1 })
  const run = { id: 'r1', run: 1 }
  expect([await runs.mark(run), await runs.mark(run)]).toEqual([true, true])
  expect(await runs.settleWorkflow(run, succeeded, samples(), true)).toBe('stored')
  expect(await runs.settleWorkflow(run, succeeded, new Map(), true)).toBe('stored')
  expect((await storedWorkflow(queue, 'r1'))?.samples.size).toBe(1)
  expect(await runs.settleGrading(run, graded)).toBe('stored')
  expect(await runs.settleGrading(run, { ...graded, samples: new Map() })).toBe('stored')
  expect((await storedGrading(queue, 'r1'))?.samples.size).toBe(1)
  expect(await runs.take('r1', taker('w1'))).toEqual({ what: 'ended' })
})

it('is busy while the worker of a rollout is alive, and recognises its own executions', async () => {
  const { queue, redis } = await openQueue()
  const { runs, records } = queue
  await records.accept(entry())
  await runs.take('r1', taker('w1'))
  await alive('w1', redis)
  const busy = await runs.take('r1', taker('w2', gone))
  expect(busy).toEqual({ what: 'busy', goneInMs: expect.closeTo(30_000, -4) as number })
  expect(await runs.take('r1', taker('w1', { running: 1 }))).toEqual({ what: 'mine', run: 1 })
  // Its worker has lost it without a report, which counts as lost.
  expect(await runs.take('r1', taker('w1'))).toMatchObject({ what: 'run', run: 2 })
})

it('does not consider a worker lost while Redis has just restarted', async () => {
  const { queue } = await openQueue()
  const { runs, records } = queue
  await records.accept(entry())
  await runs.take('r1', taker('w1'))
  expect(await runs.take('r1', taker('w2', { lockMs: 60_000 }))).toMatchObject({
    what: 'busy',
  })
})

it('counts the model calls of many executions separately', async () => {
  const { queue } = await openQueue()
  const { runs, records } = queue
  const ids = ['r1', 'r2', 'given up']
  for (const id of ids) await records.accept(entry({ id }))
  const [first, second, left] = await Promise.all(
    ids.map(async (id) => runOf(await runs.take(id, taker('w1', gone)), id)),
  )
  if (!first || !second || !left) throw new Error('three runs')
  await runs.take('given up', taker('w2', gone))
  for (const run of [first, second, second, left]) runs.count(run)
  await expect.poll(async () => (await records.read('r2'))?.calls).toBe(2)
  expect(await records.read('r1')).toMatchObject({ calls: 1 })
  expect(await records.read('given up')).toMatchObject({ run: 2, calls: 0 })
  // The outcome includes the calls that were not counted yet.
  runs.count(first)
  await runs.settleWorkflow(first, succeeded, samples(), true)
  expect(await records.read('r1')).toMatchObject({ status: 'grading', calls: 2 })
})

it('gives a rollout only to workers with its code, and its loss to any worker', async () => {
  const { queue } = await openQueue()
  const { runs, records } = queue
  await records.accept(entry())
  const other = { code: 'c2', ...gone }
  expect(await runs.take('r1', taker('w1', other))).toEqual({ what: 'other-code', code: 'c1' })
  await runs.mark(runOf(await runs.take('r1', taker('w1'))))
  expect(await runs.take('r1', taker('w2', other))).toMatchObject({ what: 'lost', run: 1 })
})

it('gives no rollout to a worker with another version of the records', async () => {
  const { queue, redis } = await openQueue()
  const { runs, records } = queue
  await records.accept(entry())
  await lookInto(redis).hset('osmosis:rollout:r1', 'code', '1:c1')
  const code = 'c1 (queue protocol 1)'
  expect(await runs.take('r1', taker('w1'))).toEqual({ what: 'other-code', code })
})

it('ends an abandoned execution, whatever it still writes', async () => {
  const { queue } = await openQueue()
  const { runs, records } = queue
  await records.accept(entry())
  const run = runOf(await runs.take('r1', taker('w1')))
  expect(await runs.giveUp(run, lost)).toBe('stored')
  expect(await runs.giveUp(run, lost)).toBe('stale')
  expect(await runs.settleWorkflow(run, succeeded, samples(), true)).toBe('stale')
  expect(await records.read('r1')).toMatchObject({ status: 'failure', run: 2 })

  await records.accept(entry({ id: 'r2' }))
  const second = runOf(await runs.take('r2', taker('w1')), 'r2')
  await runs.settleWorkflow(second, succeeded, samples(), true)
  expect(await runs.giveUp(second, lost)).toBe('stored')
  expect(await runs.settleGrading(second, graded)).toBe('stale')
  expect((await storedWorkflow(queue, 'r2'))?.outcome.status).toBe('success')
  expect(await storedGrading(queue, 'r2')).toMatchObject({ status: 'failure', samples: samples() })
})

it('stores the first body of a callback, and none after its delivery', async () => {
  const { records } = (await openQueue()).queue
  await records.accept(entry())
  expect(await records.storeCallback('r1', 'completion', { n: 1 })).toEqual({ n: 1 })
  expect(await records.storeCallback('r1', 'completion', { n: 2 })).toEqual({ n: 1 })
  await records.noteDelivered('r1', 'completion', 'delivered')
  expect(await records.storeCallback('r1', 'completion', { n: 3 })).toBeUndefined()
  expect((await records.read('r1'))?.delivered).toEqual({ completion: 'delivered' })
  expect(await records.storeCallback('never-seen', 'completion', {})).toBeUndefined()
})

it('deletes the large fields when everything is delivered, and the rest later', async () => {
  const { queue, redis } = await openQueue()
  const { records, runs } = queue
  await records.accept(entry({ request: { ...request, agentTimeoutSeconds: 60 } }))
  const run = runOf(await runs.take('r1', taker('w1')))
  await runs.settleWorkflow(run, succeeded, samples(), false)
  await records.noteDelivered('r1', 'completion', 'delivered')
  await records.finish('r1')
  const client = lookInto(redis)
  expect(await storedWorkflow(queue, 'r1')).toBeUndefined()
  expect(await records.accept(entry())).toMatchObject({ result: 'known' })
  expect(await client.pttl(records.key('r1'))).toBeGreaterThan(800_000)
  expect(await client.memory('USAGE', records.key('r1'))).toBeLessThan(2_000)
  await records.finish('r1', 0)
  expect(await records.read('r1')).toBeUndefined()
  // No worker takes the job, and none needs to.
  expect(await client.keys('*r1*')).toEqual(['osmosis:results:r-r1.end'])
  expect(await queue.counts()).toEqual({
    queued: 0,
    running: 0,
    grading: 0,
    leased: 0,
    undelivered: 0,
    inFlight: 0,
  })
})

it('does not consider a worker lost before it had time to reconnect to Redis', async () => {
  const { queue, redis } = await openQueue()
  const { records, runs } = queue
  await records.accept(entry())
  await runs.take('r1', taker('w1'))
  const asked = lookInto(redis)
  const upSeconds = async (): Promise<number> =>
    Number(/uptime_in_seconds:(\d+)/.exec(await asked.info('server'))?.[1])
  await expect.poll(upSeconds).toBeGreaterThanOrEqual(2)

  // The lock would have expired, but the worker had no time to reconnect.
  const lockMs = (await upSeconds()) * 1000
  expect(await runs.take('r1', taker('w2', { lockMs }))).toMatchObject({ what: 'busy' })
  expect(await runs.take('r1', taker('w2', gone))).toMatchObject({ what: 'run' })
})

it('keeps a grading pending when its completion is delivered a second time', async () => {
  const { queue } = await openQueue()
  const { records, runs } = queue
  await records.accept(entry())
  const run = runOf(await runs.take('r1', taker('w1')))
  await runs.settleWorkflow(run, succeeded, samples(), true)
  expect(await queue.counts()).toMatchObject({ undelivered: 1 })
  await records.noteDelivered('r1', 'completion', 'acknowledged')
  expect(await queue.counts()).toMatchObject({ undelivered: 0 })

  await runs.settleGrading(run, graded)
  await records.noteDelivered('r1', 'completion', 'acknowledged')
  expect(await queue.counts()).toMatchObject({ undelivered: 1 })
  await records.finish('r1')
  expect(await queue.counts()).toMatchObject({ undelivered: 0 })
})
