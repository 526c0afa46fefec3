import { randomBytes } from 'node:crypto'

import { QueueKeys } from '@osmosis/bullmq'
import type { RolloutRequest } from '@osmosis/protocol'
import { expect, onTestFinished, vi } from 'vitest'

import { startRedis, withPrograms } from '../../../test/kit/index.ts'
import { RolloutQueue } from '../src/queue/rollout-queue.ts'
import {
  entry,
  graded,
  lookInto,
  openQueue,
  request,
  runOf,
  samples,
  succeeded,
  taker,
} from './queue-under-test.ts'

const { it } = withPrograms('redis-server')

/** Collects the ids of pending deliveries, and finishes each. */
function deliverInto(queue: RolloutQueue): string[] {
  const delivered: string[] = []
  queue.deliverResults(
    async (id) => {
      delivered.push(id)
      await queue.records.finish(id)
    },
    { concurrency: 10 },
  )
  return delivered
}

it('delivers a rollout whose deadline passed while it was queued', async () => {
  const { queue } = await openQueue()
  const delivered = deliverInto(queue)
  const late = { ...request, agentTimeoutSeconds: 100, queuedSeconds: 99.9 }
  await queue.accept(entry({ request: late }))
  await expect.poll(() => delivered).toEqual(['r1'])
  const { status, errorMessage } = (await queue.record('r1')) ?? {}
  expect(status).toBe('failure')
  expect(errorMessage).toMatch(
    /^workflow exceeded its 100s deadline \(10\d\.\ds of it spent queued\)$/,
  )
})

it('ends a rollout when its worker does not end it at its deadline', async () => {
  const { queue } = await openQueue()
  await queue.accept(entry({ request: { ...request, agentTimeoutSeconds: 0.1 } }))
  const run = runOf(await queue.runs.take('r1', taker('w1')))
  await queue.runs.begin(run)
  await expect
    .poll(async () => (await queue.record('r1'))?.errorMessage)
    .toBe('workflow exceeded its 0.1s deadline')
  expect(await queue.runs.settleWorkflow(run, succeeded, samples(), true)).toBe('stale')
})

it('ends a rollout whose keys are gone at its deadline, and looks after all others', async () => {
  const redis = await startRedis()
  const open = async (): Promise<RolloutQueue> => {
    const queue = await RolloutQueue.open({
      url: redis.url,
      keys: new QueueKeys([randomBytes(32)]),
    })
    onTestFinished(async () => queue.close())
    return queue
  }
  const before = await open()
  const within = (seconds: number): RolloutRequest => ({ ...request, agentTimeoutSeconds: seconds })
  await before.accept(entry({ id: 'a', request: within(1) }))
  await before.accept(entry({ id: 'b', request: within(1.2) }))
  const client = lookInto(redis)
  await client.hset(before.records.key('b'), 'error', 'nothing that was sealed')
  await before.close()
  await client.del('osmosis:keys')

  const after = await open()
  const failed: string[] = []
  after.troubles.onRollout((id) => failed.push(id))
  await after.accept(entry({ id: 'c', request: within(1.5) }))
  await expect.poll(async () => (await after.record('c'))?.errorMessage).toMatch(/1\.5s deadline/)
  expect((await after.record('a'))?.errorMessage).toMatch(
    /^workflow exceeded its deadline, and its request cannot be read: /,
  )
  // It is tried again every second, and told once.
  expect(failed).toEqual(['b'])
})

it('completes an acceptance that another server started', async () => {
  const { queue } = await openQueue()
  const delivered = deliverInto(queue)
  await queue.records.accept(entry())
  expect(await queue.accept(entry())).toMatchObject({ result: 'known' })
  await queue.cancel({ all: true })
  await expect.poll(() => delivered).toEqual(['r1'])
})

it('deletes an acceptance that was never completed', async () => {
  const { queue, redis } = await openQueue()
  await queue.records.accept(entry())
  await lookInto(redis).zadd('osmosis:jobless', 0, 'r1')
  await expect.poll(async () => queue.record('r1')).toBeUndefined()
  expect(await queue.counts()).toMatchObject({ queued: 0 })
})

it('does not delete an acceptance that has a job, or that ended without a worker', async () => {
  const { queue, redis } = await openQueue()
  await queue.accept(entry())
  await queue.accept(entry({ id: 'r2' }))
  await queue.cancel({ ids: ['r2'] })
  const client = lookInto(redis)
  await client.zadd('osmosis:jobless', 0, 'r1', 0, 'r2')
  await expect.poll(async () => client.exists('osmosis:jobless')).toBe(0)
  expect(await queue.record('r1')).toMatchObject({ status: 'queued' })
  expect(await queue.record('r2')).toMatchObject({ status: 'cancelled' })
})

it('notifies the server that accepted a rollout of its results, without a job', async () => {
  const { queue, redis } = await openQueue()
  const delivered: string[] = []
  const deliverAt = (server: string, at: RolloutQueue): (() => void) =>
    at.deliverResults(async (id) => void delivered.push(`${server} ${id}`), { concurrency: 10 })
  const other = await RolloutQueue.open({ url: redis.url })
  onTestFinished(async () => other.close())
  deliverAt('other', other)
  const stop = deliverAt('own', queue)
  const client = lookInto(redis)
  // Each process that opens the queue also tries a channel of servers for a moment.
  const servers = async (): Promise<number> => {
    const channels = (await client.pubsub('CHANNELS', 'osmosis:server:*')) as string[]
    return channels.filter((name) => name !== 'osmosis:server:rights').length
  }
  await expect.poll(servers).toBe(2)
  // Redis lists a subscription before this process has read the reply to it, which it has after one more answer.
  await client.ping()
  await queue.accept(entry({ id: 'a' }))
  await queue.accept(entry({ id: 'b' }))
  await queue.cancel({ ids: ['a'] })
  await expect.poll(() => delivered).toEqual(['own a'])
  expect(await client.keys('osmosis:results:r-*')).toEqual([])

  stop()
  await expect.poll(servers).toBe(1)
  await queue.cancel({ ids: ['b'] })
  await expect.poll(() => delivered).toEqual(['own a', 'other b'])
})

it('delivers an outcome that arrives while a job delivers the completion', async () => {
  const { queue } = await openQueue()
  const delivered: unknown[] = []
  const completion = Promise.withResolvers<void>()
  queue.deliverResults(
    async (id) => {
      const { status } = (await queue.record(id)) ?? {}
      delivered.push(status)
      if (status === 'grading') await completion.promise
    },
    { concurrency: 10 },
  )
  await queue.records.accept(entry())
  const run = runOf(await queue.runs.take('r1', taker('w1')))
  await queue.runs.settleWorkflow(run, succeeded, samples(), true)
  await expect.poll(() => delivered).toEqual(['grading'])
  await queue.runs.settleGrading(run, graded)
  completion.resolve()
  await expect.poll(() => delivered).toEqual(['grading', 'success'])
})

it('warns of a Redis that loses data', async () => {
  const forgetful = await startRedis({ config: { 'maxmemory-policy': 'allkeys-lru' } })
  const queue = await RolloutQueue.open({ url: forgetful.url })
  onTestFinished(async () => queue.close())
  expect(queue.warnings).toEqual([
    expect.stringContaining('no append-only file'),
    expect.stringContaining('allkeys-lru'),
  ])
  const durable = await startRedis({ aof: true })
  const other = await RolloutQueue.open({ url: durable.url })
  onTestFinished(async () => other.close())
  expect(other.warnings).toEqual([])
})

it('warns when its Redis user may not read the configuration', async () => {
  // ioredis prints a warning as well.
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  const redis = await startRedis({ aof: true })
  await lookInto(redis).acl('SETUSER', 'rollouts', 'on', '>secret', '~*', '&*', '+@all', '-info')
  const url = redis.url.replace('//', '//rollouts:secret@')
  const queue = await RolloutQueue.open({ url })
  onTestFinished(async () => queue.close())
  expect(queue.warnings).toEqual([expect.stringContaining('does not allow INFO')])
  expect(queue.address).toBe(redis.url)
})

it('warns of keys that can be read in a Redis off loopback', async () => {
  const redis = await startRedis({ aof: true })
  // Connects to this machine, but is not a loopback address.
  const url = redis.url.replace('127.0.0.1', '0.0.0.0')
  const queue = await RolloutQueue.open({ url, allowPlainKeys: true })
  onTestFinished(async () => queue.close())
  expect(queue.warnings).toEqual([
    expect.stringContaining('are readable in the Redis at redis://0.0'),
  ])
  const keys = QueueKeys.parse(Buffer.alloc(32, 1).toString('base64'))
  const sealed = await RolloutQueue.open({ url, keys, prefix: 'sealed' })
  onTestFinished(async () => sealed.close())
  expect(sealed.warnings).toEqual([])
})

it('refuses plain keys off loopback, invalid addresses and an unreachable Redis', async () => {
  const code = (wanted: string): unknown => expect.objectContaining({ code: wanted })
  const open = async (url: string): Promise<RolloutQueue> => RolloutQueue.open({ url })
  await expect(open('redis://redis.example:6379')).rejects.toThrow(code('invalid_config'))
  await expect(open('redis://redis.example:6379')).rejects.toThrow(
    /OSMOSIS_QUEUE_KEY_FILE.*OSMOSIS_ALLOW_PLAIN_KEYS/,
  )
  await expect(open('http://127.0.0.1:6379')).rejects.toThrow(code('invalid_config'))
  await expect(open('redis://127.0.0.1:1')).rejects.toThrow(code('queue_unavailable'))
})

it('refuses a node of a Redis Cluster by its name, also before it owns a slot', async () => {
  const redis = await startRedis({ config: { 'cluster-enabled': 'yes' } })
  const open = async (): Promise<RolloutQueue> => RolloutQueue.open({ url: redis.url })
  const refusal = expect.objectContaining({
    code: 'invalid_config',
    message: expect.stringContaining('is a node of a Redis Cluster'),
  }) as unknown
  await expect(open()).rejects.toEqual(refusal)
  await lookInto(redis).call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
  await expect(open()).rejects.toEqual(refusal)
})

it.each(['50%off', 'a/b?c#d@e:f', '%41', 'ä €'])(
  'logs in with the password %j, as it is or encoded',
  async (password) => {
    const redis = await startRedis({ aof: true })
    const rights = ['on', `>${password}`, '~*', '&*', '+@all']
    await lookInto(redis).acl('SETUSER', 'team@work', ...rights)
    const asItIs = password === '%41' ? [] : [password]
    for (const written of [encodeURIComponent(password), ...asItIs]) {
      const url = redis.url.replace('//', `//team%40work:${written}@`)
      const queue = await RolloutQueue.open({ url })
      expect([queue.address, queue.warnings]).toEqual([redis.url, []])
      await queue.close()
    }
  },
)

it('refuses processes with other keys, and changes keys in three steps', async () => {
  const [old, next] = [randomBytes(32), randomBytes(32)]
  const { url } = await startRedis({ aof: true })
  const open = async (...keys: Buffer[]): Promise<void> => {
    // An open queue renews the record of its keys, so those of the previous step are closed.
    const queue = await RolloutQueue.open({ url, keys: new QueueKeys(keys) })
    await queue.close()
  }
  const stranger = {
    code: 'invalid_config',
    message: expect.stringContaining(
      'encrypted with a key that is not among those of this process',
    ),
  }
  await open(old)
  for (const strange of [[next], []]) {
    await expect(open(...strange)).rejects.toMatchObject(stranger)
  }
  await open(old, next)
  await open(next, old)
  await open(old, next)
  await open(next, old)
  await open(next)
  await expect(open(old)).rejects.toMatchObject(stranger)
})

it.each([
  '-publish',
  '-subscribe',
  'resetchannels',
  'resetchannels &osmosis:rights &osmosis:wake',
  '-multi',
  '-eval',
  '-set',
  '-time',
  '-wait',
])('reports at the start that its user lacks a right: %s', async (right) => {
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  const redis = await startRedis({ aof: true })
  const rights = ['on', '>secret', '~*', '&*', '+@all', ...right.split(' ')]
  await lookInto(redis).acl('SETUSER', 'team', ...rights)
  const open = RolloutQueue.open({ url: redis.url.replace('//', '//team:secret@') })
  await expect(open).rejects.toMatchObject({
    code: 'queue_unavailable',
    message: expect.stringMatching(/ refuses: .*(?:permission|can't run this command)/) as string,
  })
})

it('reports why a reachable Redis cannot be used', async () => {
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  const redis = await startRedis({ aof: true })
  const rights = ['on', '>secret', '~*', '&*', '+@all', '-time']
  await lookInto(redis).acl('SETUSER', 'rollouts', ...rights)
  const open = async (user: string): Promise<RolloutQueue> =>
    RolloutQueue.open({ url: redis.url.replace('//', `//${user}@`) })
  await expect(open('rollouts:wrong')).rejects.toThrow(/ refuses: WRONGPASS /)
  await expect(open('rollouts:secret')).rejects.toThrow(
    / refuses: .*(permission|can't run this command)/,
  )
  const tls = RolloutQueue.open({ url: redis.url.replace('redis:', 'rediss:') })
  await expect(tls).rejects.toThrow(/ does not answer: (?!Connection is closed)/)
})

it('leaves only the records of ended rollouts in Redis', async () => {
  const { queue, redis } = await openQueue()
  const delivered = deliverInto(queue)
  const ids = Array.from({ length: 20 }, (_, n) => `r-${n}`)
  for (const id of ids) await queue.accept(entry({ id }))
  await queue.cancel({ all: true })
  await expect.poll(() => delivered.toSorted()).toEqual(ids.toSorted())
  const client = lookInto(redis)
  await expect
    .poll(async () =>
      (await client.keys('*:r-*')).filter((key) => !key.startsWith('osmosis:rollout:')),
    )
    .toEqual([])
  for (const id of ids) await queue.records.finish(id, 0)
  const rest = (await client.keys('*')).filter(
    (key) => !/:(meta|events|id|keys|marker|sweep|served|stalled-check)$/.test(key),
  )
  expect(rest).toEqual([])
})

it('subscribes to changes only when a caller waits for them', async () => {
  const { redis } = await openQueue()
  const other = await RolloutQueue.open({ url: redis.url })
  onTestFinished(async () => other.close())
  const client = lookInto(redis)
  await other.accept(entry())
  const seen = other.watch('r1', new AbortController().signal)
  expect((await seen.next()).value).toMatchObject({ status: 'queued' })
  const hearing = async (): Promise<unknown> => (await client.pubsub('NUMSUB', 'osmosis:wake'))[1]
  await expect.poll(hearing).toBe(1)
})
