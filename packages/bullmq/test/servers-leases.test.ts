import { setTimeout as sleep } from 'node:timers/promises'

import type { QueueConnectionOptions } from '@osmosis/bullmq'
import { Redis } from 'ioredis'
import { expect, onTestFinished } from 'vitest'

import { post, statusAndBody, TcpProxy, withPrograms } from '../../../test/kit/index.ts'
import { lookInto } from './queue-under-test.ts'
import { startServers, workflowOf } from './servers-under-test.ts'

const { it } = withPrograms('redis-server')

it('a leased result can be fetched from any server, with the same bytes each time', async () => {
  const { a, b } = await startServers()
  const handle = await a.start()
  const elsewhere = b.handle(handle)

  const { text } = await elsewhere.until()
  expect(JSON.parse(text)).toMatchObject({ status: 'success', sample: { reward: 1 } })
  expect((await handle.once()).text).toBe(text)
  expect((await elsewhere.once()).text).toBe(text)
  expect(await statusAndBody(await elsewhere.read(undefined, 'wrong'))).toStrictEqual({
    status: 403,
    body: { detail: 'invalid polling lease' },
  })
  expect(await b.get('/rollout/r1/status')).toStrictEqual({
    rollout_id: 'r1',
    status: 'success',
    reward: 1,
    err_message: null,
  })
  expect(await b.get('/health')).toMatchObject({ retained_results: 1 })
})

it('an available result is the answer, however short the request may wait', async () => {
  const { a } = await startServers({ leases: { waitSeconds: 0.001 } })
  const handle = await a.start()
  const status = async (): Promise<unknown> => a.get('/rollout/r1/status')
  await expect.poll(status).toMatchObject({ status: 'success' })
  for (let n = 0; n < 10; n += 1) {
    expect(await handle.once()).toMatchObject({ status: 'success', sample: { reward: 1 } })
  }
})

it('a leased id is taken on all servers, and unknown ids are unknown on all', async () => {
  const { a, b } = await startServers({ workers: 0 })
  const { accepted } = await a.start()
  const { completion_callback_url: _, ...body } = a.body()

  expect(await statusAndBody(await post(`${b.url}/rollout`, body))).toStrictEqual({
    status: 409,
    body: { detail: 'rollout_id is already registered' },
  })
  expect(accepted).toMatchObject({ rollout_id: 'r1', status: 'queued' })
  const headers = { 'x-osmosis-rollout-lease': 'any' }
  expect((await fetch(`${b.url}/rollout/r2/result`, { headers })).status).toBe(404)
  await b.post({ rollout_id: 'called' })
  expect((await fetch(`${a.url}/rollout/called/result`, { headers })).status).toBe(404)
})

it('a holder receives each status once, whichever server it asks', async () => {
  const gate = Promise.withResolvers<void>()
  const { a, b } = await startServers({ workflow: workflowOf(async () => gate.promise) })
  const handle = await a.start()
  expect(await handle.until((status) => status === 'running')).toMatchObject({ sample: null })

  const next = b.handle(handle).once()
  await post(`${b.url}/rollout/cancel`, { ids: ['unknown'] })
  gate.resolve()
  expect(await next).toMatchObject({ status: expect.not.stringMatching('running') })
})

it('a lease expires although the server that issued it was killed', async () => {
  const { a, b, controller } = await startServers({
    leases: { waitSeconds: 0.1, leaseSeconds: 0.5 },
  })
  controller.hanging = true
  const handle = await a.start()
  await controller.until(() => controller.openPolicyCalls === 1)
  await a.close()

  await controller.until(() => controller.openPolicyCalls === 0)
  const expired = { status: 'failure', err_message: 'polling lease expired' }
  expect(await b.handle(handle).until()).toMatchObject({
    ...expired,
    err_category: 'lease_expired',
    sample: null,
  })
  expect(await b.get('/rollout/r1/status')).toMatchObject(expired)
})

it('a repeated cancel of a leased rollout gets the same answer, and the rollout ends as cancelled', async () => {
  const { a, b, controller, worker } = await startServers({ workers: 0 })
  controller.hanging = true
  const cancel = async (url: string, id: string): Promise<unknown> =>
    ((await (await post(`${url}/rollout/cancel`, { ids: [id] })).json()) as never)['dispositions']
  const queued = await a.start({ rollout_id: 'queued' })

  expect(await cancel(b.url, 'queued')).toStrictEqual({ queued: 'cancelled_queued' })
  expect(await cancel(a.url, 'queued')).toStrictEqual({ queued: 'cancelled_queued' })
  expect(await queued.until()).toMatchObject({ status: 'cancelled', err_message: null })

  await worker()
  const running = await a.start({ rollout_id: 'running' })
  await controller.until(() => controller.openPolicyCalls === 1)
  expect(await cancel(b.url, 'running')).toStrictEqual({ running: 'cancelled_running' })
  expect(await running.until()).toMatchObject({ status: 'cancelled', err_message: 'cancelled' })
  expect(await cancel(a.url, 'running')).toStrictEqual({ running: 'cancelled_running' })
})

it('a caller whose lease is refused while Redis becomes unreachable can try again', async () => {
  const { a, redis, controller } = await startServers({ aof: true, workers: 0 })
  const ask = async (n: number): Promise<number> => {
    const { completion_callback_url: _, ...body } = controller.rolloutBody({ rollout_id: `r-${n}` })
    return (await post(`${a.url}/rollout`, body)).status
  }
  const asked = Array.from({ length: 60 }, async (_, n) => ask(n))
  await Promise.race(asked)
  await redis.kill()
  await redis.restart()

  const again = async (first: Promise<number>, n: number): Promise<number> => {
    let status = await first
    while (status === 503) status = await ask(n)
    return status
  }
  const statuses = await Promise.all(asked.map(async (first, n) => again(first, n)))
  expect(new Set(statuses)).toStrictEqual(new Set([202]))
})

it('servers limit stored results, and first delete those that were fetched', async () => {
  const { a, b } = await startServers({
    // The lease still holds when a busy machine repeats the request.
    leases: { waitSeconds: 0.05, leaseSeconds: 2, maxRetained: 2 },
  })
  const first = await a.start({ rollout_id: 'first' })
  await first.until()
  const second = await b.start({ rollout_id: 'second' })
  await second.until()
  await expect
    .poll(async () => {
      const { completion_callback_url: _, ...body } = a.body({ rollout_id: 'third' })
      return (await post(`${b.url}/rollout`, body)).status
    })
    .toBe(202)

  expect((await first.read()).status).toBe(404)
  expect(await second.once()).toMatchObject({ status: 'success' })
})

it('results are deleted when they expire', async () => {
  const { a, b } = await startServers({
    leases: { waitSeconds: 0.05, leaseSeconds: 0.1, retentionSeconds: 0.3 },
  })
  const handle = await a.start()
  await handle.until()

  await expect.poll(async () => (await b.handle(handle).read()).status).toBe(404)
  expect(await b.get('/health')).toMatchObject({ retained_results: 0 })
})

it('expired results leave nothing in Redis, although no server asks', async () => {
  const { a, redis } = await startServers({
    leases: { waitSeconds: 0.05, leaseSeconds: 0.1, retentionSeconds: 0.3 },
  })
  const handle = await a.start()
  await handle.until()

  const asked = new Redis(redis.url)
  onTestFinished(() => asked.disconnect())
  await expect.poll(async () => asked.keys('osmosis:retained*')).toEqual([])
})

it('a result that expires while it is requested is unknown', async () => {
  const { a, redis } = await startServers()
  const handle = await a.start()
  await handle.until()
  // As when the record expires after it was found.
  await lookInto(redis).hdel('osmosis:rollout:r1', 'end')
  expect(await statusAndBody(await handle.read())).toStrictEqual({
    status: 404,
    body: { detail: 'unknown rollout_id' },
  })
})

it('a rollout whose lease expired is ended although Redis was lost in between', async () => {
  const leases = { waitSeconds: 0.1, leaseSeconds: 0.5 }
  const connection: Partial<QueueConnectionOptions> = {}
  const { a, b, redis, controller, startServer } = await startServers({ connection, leases })
  controller.hanging = true
  await using proxy = await new TcpProxy(redis.port).start()
  await Promise.all([a.close(), b.close()])
  Object.assign(connection, { url: `redis://127.0.0.1:${proxy.port}` })
  const server = await startServer()
  let losses = 0
  proxy.cutsAt = (sent) => {
    const isLost = losses === 0 && sent.includes('local cancelDispositions')
    if (isLost) losses += 1
    return isLost
  }
  await server.start()
  await controller.until(() => controller.openPolicyCalls === 1)

  await controller.until(() => controller.openPolicyCalls === 0)
  expect(losses).toBe(1)
  expect(await server.get('/rollout/r1/status')).toMatchObject({
    err_message: 'polling lease expired',
  })
  const left = async (): Promise<unknown> => lookInto(redis).zcard('osmosis:leases')
  await expect.poll(left).toBe(0)
  await server.close()
})

it(
  'no lease expires because Redis was unreachable for longer than the lease',
  { tags: 'slow' },
  async () => {
    const leases = { waitSeconds: 0.1, leaseSeconds: 3 }
    const { a, b, redis, controller } = await startServers({ aof: true, leases })
    controller.hanging = true
    const handle = await a.start()
    await handle.until((status) => status === 'running')
    await redis.kill()
    expect((await handle.read()).status).toBe(503)
    await sleep(3_000)
    await redis.restart()
    // Long enough for both servers to check.
    await sleep(1_000)

    await expect.poll(async () => (await b.handle(handle).read()).status).toBe(200)
    expect(await handle.once()).toMatchObject({ status: 'running' })
  },
)
