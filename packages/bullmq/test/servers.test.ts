import type { QueueConnectionOptions } from '@osmosis/bullmq'
import { expect, onTestFinished, vi } from 'vitest'

import { post, statusAndBody, withPrograms } from '../../../test/kit/index.ts'
import { lookInto } from './queue-under-test.ts'
import { startServers } from './servers-under-test.ts'

const { it } = withPrograms('redis-server')

it('any server delivers a rollout that one server accepted, and all know its status', async () => {
  const { a, b, controller } = await startServers()

  expect(await statusAndBody(await a.post())).toStrictEqual({ status: 202, body: {} })
  expect(await controller.bodies()).toMatchObject([
    { rollout_id: 'r1', status: 'success', err_message: null },
    { rollout_id: 'r1', status: 'success', sample: { reward: 1 } },
  ])
  const status = { rollout_id: 'r1', status: 'success', reward: 1, err_message: null }
  expect(await a.get('/rollout/r1/status')).toStrictEqual(status)
  expect(await b.get('/rollout/r1/status')).toStrictEqual(status)
})

it('a repeated request gets the first answer from any server, and another body is refused', async () => {
  const { a, b, controller } = await startServers()
  await a.post()

  expect(await statusAndBody(await b.post())).toStrictEqual({ status: 202, body: {} })
  expect((await b.post({ label: 'no' })).status).toBe(409)
  await controller.bodies()
  expect(await statusAndBody(await b.post())).toStrictEqual({ status: 202, body: {} })
  expect((await b.post({ label: 'no' })).status).toBe(409)
  expect(controller.callbacks).toHaveLength(2)
})

it('a server that Redis does not tell of outcomes delivers them all the same, and says so', async () => {
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  const connection: Partial<QueueConnectionOptions> = {}
  const { a, b, redis, controller, startServer } = await startServers({ connection })
  await Promise.all([a.close(), b.close()])
  const client = lookInto(redis)
  await client.acl('SETUSER', 'team', 'on', '>secret', '~*', '&*', '+@all')
  Object.assign(connection, { url: redis.url.replace('//', '//team:secret@') })
  const server = await startServer({
    // Rights that change after the queue was opened.
    onStartup: async () => {
      const channels = ['resetchannels', '&osmosis:worker:*', '&osmosis:wake']
      await client.acl('SETUSER', 'team', ...channels)
    },
  })

  await server.post()
  expect(await controller.bodies()).toMatchObject([
    { status: 'success' },
    { status: 'success', sample: { reward: 1 } },
  ])
  const warning = /^This server learns of outcomes later, .* refuses: NOPERM /
  expect(server.log.filter(({ message }) => warning.test(message))).toHaveLength(1)
})

it('a queued or running rollout can be cancelled on any server', async () => {
  const { a, b, controller, worker } = await startServers({ workers: 0 })
  controller.hanging = true
  await a.post({ rollout_id: 'queued' })
  const cancel = async (ids: string[]): Promise<unknown> =>
    (await post(`${b.url}/rollout/cancel`, { ids })).json()

  expect(await cancel(['queued', 'unknown'])).toStrictEqual({
    dispositions: { queued: 'cancelled_queued', unknown: 'not_found' },
  })
  const cancelled = { status: 'failure', err_message: 'cancelled', err_category: 'agent_error' }
  expect(await controller.bodies()).toMatchObject([cancelled, { ...cancelled, samples: {} }])

  await worker()
  await a.post({ rollout_id: 'running' })
  await controller.until(() => controller.openPolicyCalls === 1)
  expect(await a.get('/rollout/running/status')).toMatchObject({ status: 'running' })
  expect(await cancel(['running'])).toStrictEqual({
    dispositions: { running: 'cancelled_running' },
  })
  await controller.until(() => controller.callbacks.length === 4)
  expect(controller.callbacks[3]?.body).toMatchObject({ ...cancelled, rollout_id: 'running' })
  expect(await a.get('/rollout/running/status')).toStrictEqual({
    rollout_id: 'running',
    status: 'cancelled',
    reward: null,
    err_message: 'cancelled',
  })
  expect(await cancel(['running'])).toStrictEqual({ dispositions: { running: 'not_found' } })
})

it('a cancel of all leaves the rollouts of other code alone, unless their ids are named', async () => {
  const { a, b, startServer } = await startServers({ workers: 0 })
  const other = await startServer({ code: 'other' })
  await Promise.all([
    a.post({ rollout_id: 'x-first' }),
    b.post({ rollout_id: 'x-second' }),
    other.post({ rollout_id: 'x-other' }),
  ])
  const cancel = async (selector: object): Promise<unknown> =>
    (await post(`${a.url}/rollout/cancel`, selector)).json()

  expect(await cancel({ prefix: 'x-f' })).toStrictEqual({
    dispositions: { 'x-first': 'cancelled_queued' },
  })
  expect(await cancel({ all: true })).toStrictEqual({
    dispositions: { 'x-second': 'cancelled_queued' },
  })
  expect(await other.get('/rollout/x-other/status')).toMatchObject({ status: 'queued' })
  expect(await cancel({ ids: ['x-other'] })).toStrictEqual({
    dispositions: { 'x-other': 'cancelled_queued' },
  })
})

it('all servers together accept no more rollouts than may be queued', async () => {
  const { a, b } = await startServers({ workers: 0, maxQueueDepth: 1 })
  await a.post({ rollout_id: 'first' })

  const refused = await b.post({ rollout_id: 'second' })
  expect(refused.headers.get('retry-after')).toBe('5')
  expect(await statusAndBody(refused)).toStrictEqual({
    status: 429,
    body: { detail: 'rollout queue is full; retry later' },
  })
  expect((await b.post({ rollout_id: 'first' })).status).toBe(202)
})

it('a server refuses immediately while Redis is unreachable, and accepts again afterwards', async () => {
  const { a, redis, controller } = await startServers({ workers: 0, aof: true })
  await a.post({ rollout_id: 'before' })
  await redis.kill()

  for (let n = 0; n < 3; n += 1) {
    const refused = await a.post({ rollout_id: 'meanwhile' })
    expect(refused.headers.get('retry-after')).toBe('5')
    expect(await statusAndBody(refused)).toStrictEqual({
      status: 503,
      body: { detail: 'the queue cannot be reached; retry later' },
    })
  }
  const why = /^rollout refused: The Redis of the queue at .* does not answer: /
  expect(a.log).toContainEqual(
    expect.objectContaining({ level: 'warn', message: expect.stringMatching(why) }),
  )
  expect((await fetch(`${a.url}/rollout/before/status`)).status).toBe(503)
  expect((await fetch(`${a.url}/health`)).status).toBe(503)
  expect((await post(`${a.url}/rollout/cancel`, { all: true })).status).toBe(503)

  await redis.restart()
  await expect
    .poll(async () => (await a.post({ rollout_id: 'after' })).status, { timeout: 10_000 })
    .toBe(202)
  expect(await a.get('/rollout/before/status')).toMatchObject({ status: 'queued' })
  expect(controller.callbacks).toStrictEqual([])
})

it.each([
  ['NOREPLICAS', 'min-replicas-to-write', ['1', '0']],
  ['OOM', 'maxmemory', ['1', '0']],
] as const)(
  'a server whose Redis refuses to write (%s) refuses at once and is unhealthy, until it writes again',
  async (word, setting, [refuses, writes]) => {
    const { a, redis } = await startServers({ workers: 1 })
    await lookInto(redis).config('SET', setting, refuses)
    const health = async (): Promise<number> => (await fetch(`${a.url}/health`)).status
    await expect.poll(health).toBe(503)

    const began = performance.now()
    expect(await statusAndBody(await a.post({ rollout_id: 'meanwhile' }))).toStrictEqual({
      status: 503,
      body: { detail: `the Redis of the queue refuses it (${word}); retry later` },
    })
    await expect(a.start({ rollout_id: 'leased' })).rejects.toThrow('POST /rollout: 503')
    // A server that tries for itself does so for 30 s.
    expect(performance.now() - began).toBeLessThan(20_000)

    await lookInto(redis).config('SET', setting, writes)
    await expect.poll(health).toBe(200)
    expect((await a.post({ rollout_id: 'meanwhile' })).status).toBe(202)
    expect((await (await a.start({ rollout_id: 'leased' })).until()).status).toBe('success')
    const told = a.log.filter(({ message }) => message.startsWith('The Redis of the queue'))
    expect(told.map(({ level, message }) => [level, message])).toEqual([
      [
        'warn',
        expect.stringMatching(
          new RegExp(`refuses: .*${word}.* Rollouts wait until it stores them`),
        ),
      ],
      ['info', expect.stringMatching(/ stores again\.$/)],
    ])
  },
)

it('a draining server accepts no rollouts, and others deliver its pending outcomes', async () => {
  const { a, b, controller } = await startServers({ workers: 0 })
  await a.post({ rollout_id: 'left' })
  const drained = await (await post(`${a.url}/drain`, { timeout_sec: 0 })).json()
  expect(drained).toMatchObject({
    accepting_rollouts: false,
    drained: true,
    rollout_ids: ['left'],
  })
  expect((await a.post({ rollout_id: 'late' })).status).toBe(503)
  expect((await b.post({ rollout_id: 'late' })).status).toBe(202)
  await a.close()

  await post(`${b.url}/rollout/cancel`, { ids: ['left'] })
  expect(await controller.bodies()).toMatchObject([{ rollout_id: 'left' }, { rollout_id: 'left' }])
})

it('callbacks that one server could not deliver are delivered unchanged by another one', async () => {
  const { a, b, startServer, controller } = await startServers()
  controller.otherwise = () => 503
  await a.post()
  await controller.until(() => controller.callbacks.length > 2)
  await Promise.all([a.close(), b.close()])
  const lines = [...a.log, ...b.log]
  expect(lines.filter(({ level }) => level === 'error')).toStrictEqual([])
  expect(lines).toContainEqual(
    expect.objectContaining({ level: 'info', message: 'callback left to another server' }),
  )
  const tried = controller.callbacks.splice(0).map(({ body }) => JSON.stringify(body))
  controller.otherwise = () => undefined

  await startServer()
  const [completion, grader] = await controller.bodies()
  expect(new Set([...tried, JSON.stringify(completion)]).size).toBe(1)
  expect(grader).toMatchObject({ status: 'success', sample: { reward: 1 } })
})

it('a finally refused callback is not sent again, and the grading is delivered', async () => {
  const { a, controller } = await startServers()
  controller.answers['completion'] = [410]
  await a.post()

  expect(await controller.bodies()).toMatchObject([{ status: 'success' }, { status: 'success' }])
  await expect.poll(async () => a.get('/health')).toMatchObject({ undelivered: 0 })
  expect(controller.callbacks).toHaveLength(2)
})

it('a callback that was given up is sent again later, and the grading does not wait for it', async () => {
  const { a, controller } = await startServers({ callbackRetry: { retries: 0 } })
  controller.answers['completion'] = [503, 503]
  await a.post()
  await controller.until(
    () => controller.events.filter((at) => /completion 200/.test(at)).length > 0,
  )

  expect(controller.events.filter((event) => /completion|grader/.test(event))).toStrictEqual([
    'completion 503',
    'completion 503',
    'grader 200',
    'completion 200',
  ])
  await expect.poll(async () => a.get('/health')).toMatchObject({ undelivered: 0 })
})

it('a callback that is never acknowledged counts as undelivered until its time has passed', async () => {
  const { a, b, controller } = await startServers({
    callbackRetry: { retries: 0 },
    undeliveredSeconds: 2,
  })
  controller.otherwise = () => 503
  await a.post()
  await controller.until(() => controller.events.filter((at) => at === 'grader 503').length > 1)
  expect(await b.get('/health')).toMatchObject({ undelivered: 1 })

  await expect
    .poll(async () => a.get('/health'), { timeout: 15_000 })
    .toMatchObject({ undelivered: 0 })
  expect(await b.get('/rollout/r1/status')).toMatchObject({ status: 'success', reward: 1 })
})

it('a server whose clock is two days ahead gives no callback up early', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  vi.setSystemTime(Date.now() + 2 * 86_400_000)
  const { a, controller } = await startServers({ callbackRetry: { retries: 0 } })
  controller.otherwise = () => 503
  await a.post()
  await controller.until(() => controller.events.filter((at) => at === 'grader 503').length > 1)
  expect(await a.get('/health')).toMatchObject({ undelivered: 1 })
})

it('rollouts with a lower priority number run first', async () => {
  const { a, controller, worker } = await startServers({ workers: 0, concurrency: 1 })
  for (const [rollout_id, osmosis_priority] of Object.entries({
    last: 20,
    second: 10,
    third: 11,
  })) {
    await a.post({ rollout_id, metadata: { osmosis_priority } })
  }
  await a.post({ rollout_id: 'first' })
  expect((await a.post({ rollout_id: 'none', metadata: { osmosis_priority: 0 } })).status).toBe(422)
  await worker()
  await controller.until(() => controller.callbacks.length === 8)

  const asked = controller.policyHeaders.map((headers) => headers['x-rollout-id'])
  expect(asked).toStrictEqual(['first', 'second', 'third', 'last'])
})
