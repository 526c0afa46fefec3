import { describe, expect, it } from 'vitest'

import { post, statusAndBody } from '../../../test/kit/index.ts'
import { leasing } from './leasing-server.ts'
import { askPolicy, workflowOf } from './running-server.ts'

interface Drained {
  accepting_rollouts: boolean
  active_rollouts: number
  drained: boolean
  instance_id: string
  process_id: string
  rollout_ids: string[]
}

async function drain(url: string, body: unknown = { timeout_sec: 0 }): Promise<Drained> {
  return (await (await post(`${url}/drain`, body)).json()) as Drained
}

/** A server whose rollouts wait for `release`. */
async function gated(
  options: Parameters<typeof leasing>[0] = {},
): Promise<Awaited<ReturnType<typeof leasing>> & { release: () => void }> {
  const gate = Promise.withResolvers<void>()
  const running = await leasing({
    ...options,
    workflow: workflowOf(async (ctx) => {
      await askPolicy(ctx)
      await gate.promise
    }),
  })
  return Object.assign(running, { release: () => gate.resolve() })
}

it('rollouts with callbacks and leased ones never mix', async () => {
  await using running = await leasing({ maxConcurrent: 20 })
  const { controller } = running
  const leased = Array.from({ length: 50 }, (_, index) => `leased-${index}`)
  const called = Array.from({ length: 50 }, (_, index) => `called-${index}`)
  const [results] = await Promise.all([
    Promise.all(leased.map(async (rollout_id) => (await running.start({ rollout_id })).until())),
    Promise.all(called.map((rollout_id) => running.post({ rollout_id }))),
  ])
  await controller.until(() => controller.callbacks.length === 100)

  expect(
    results.map(({ text }) => (JSON.parse(text) as { rollout_id: string }).rollout_id),
  ).toEqual(leased)
  expect(results.every(({ status, sample }) => status === 'success' && sample?.reward === 1)).toBe(
    true,
  )
  const ids = controller.callbacks.map(({ body }) => (body as { rollout_id: string }).rollout_id)
  expect(ids.toSorted()).toStrictEqual([...called, ...called].toSorted())
  const result = await fetch(`${running.url}/rollout/called-1/result`, {
    headers: { 'x-osmosis-rollout-lease': 'any' },
  })
  expect(result.status).toBe(404)
})

describe('POST /drain', () => {
  it('refuses new rollouts permanently, and does not affect those in progress', async () => {
    await using running = await gated({ instanceId: 'pod-7' })
    const { url, controller } = running
    const handle = await running.start({ rollout_id: 'b' })
    await running.post({ rollout_id: 'a' })

    const first = await drain(url)
    expect(first).toStrictEqual({
      accepting_rollouts: false,
      active_rollouts: 2,
      drained: false,
      instance_id: 'pod-7',
      process_id: expect.stringMatching(/^[\da-f-]{36}$/),
      rollout_ids: ['a', 'b'],
    })
    const late = await post(`${url}/rollout`, running.body({ rollout_id: 'late' }))
    expect(await statusAndBody(late)).toStrictEqual({
      status: 503,
      body: { detail: 'rollout admissions are drained' },
    })
    expect((await running.post({ rollout_id: 'late' })).status).toBe(503)
    expect(await (await fetch(`${url}/health`)).json()).toMatchObject({
      process_id: first.process_id,
      lifecycle: { accepting_rollouts: false, active_rollouts: 2 },
    })

    running.release()
    expect(await handle.until()).toMatchObject({ status: 'success', sample: { reward: 1 } })
    await controller.bodies()
    expect(await drain(url, {})).toStrictEqual({ ...first, active_rollouts: 0, drained: true })
    expect((await running.post({ rollout_id: 'late' })).status).toBe(503)
  })

  it('waits only until the last rollout has ended', async () => {
    await using running = await gated()
    await running.start()
    const waiting = drain(running.url, { timeout_sec: 300 })
    await expect
      .poll(async () => (await fetch(`${running.url}/health`)).json())
      .toMatchObject({ lifecycle: { accepting_rollouts: false } })
    running.release()

    expect(await waiting).toMatchObject({ drained: true, active_rollouts: 0 })
  })

  it('lets leases lapse as before', async () => {
    await using running = await gated({ leases: { waitSeconds: 0.05, leaseSeconds: 0.2 } })
    const handle = await running.start()

    expect(await drain(running.url, { timeout_sec: 300 })).toMatchObject({ drained: true })
    expect(await handle.once()).toMatchObject({ err_category: 'lease_expired' })
  })

  it.each([{ timeout_sec: -1 }, { timeout_sec: 301 }, { timeout_sec: 'soon' }, [], 'soon'])(
    'refuses %j',
    async (body) => {
      await using running = await leasing()

      expect((await post(`${running.url}/drain`, body)).status).toBe(422)
      expect((await running.post()).status).toBe(202)
    },
  )
})

describe('the end of a server', () => {
  it('delivers callbacks and leased results, those of queued rollouts included', async () => {
    await using running = await gated({ maxConcurrent: 2 })
    const { server, controller } = running
    const handles = await Promise.all(
      ['l1', 'l2'].map((rollout_id) => running.start({ rollout_id })),
    )
    await Promise.all(['c1', 'c2'].map((rollout_id) => running.post({ rollout_id })))
    const results = Promise.all(handles.map((handle) => handle.until()))
    const drained = server.drain()
    running.release()

    expect(await results).toMatchObject([{ status: 'success' }, { status: 'success' }])
    await drained
    expect(controller.callbacks).toHaveLength(4)
    expect(server.undelivered).toBe(0)
  })

  it('publishes failures of the rollouts that it ends, and waits until they were fetched', async () => {
    await using running = await gated({ drainSeconds: 0.05, shutdownGraceSeconds: 600 })
    const { server } = running
    const handle = await running.start()
    const drained = server.drain()
    await expect
      .poll(async () => (await fetch(`${running.url}/health`)).json())
      .toMatchObject({ retained_results: 1 })

    expect(await handle.until()).toMatchObject({
      status: 'failure',
      err_message: 'rollout server shut down',
      err_category: 'agent_error',
    })
    await drained
  })

  it('does not wait for callers that have long been silent', async () => {
    await using running = await gated({
      shutdownGraceSeconds: 600,
      leases: { waitSeconds: 0.05, leaseSeconds: 0.2 },
    })
    await running.start()
    await expect
      .poll(() => running.log.map(({ message }) => message))
      .toContain('polling lease expired')

    await running.server.drain()
  })
})
