import { describe, expect, it, vi } from 'vitest'

import { post, statusAndBody } from '../../../test/kit/index.ts'
import { askPolicy, graderOf, startServer, workflowOf } from './running-server.ts'

async function statusOf(url: string, id = 'r1'): Promise<unknown> {
  return (await fetch(`${url}/rollout/${id}/status`)).json()
}

describe('the status of a rollout', () => {
  it('goes from queued over running and grading to success, with the reward at the end', async () => {
    const first = Promise.withResolvers<void>()
    const second = Promise.withResolvers<void>()
    const judged = Promise.withResolvers<void>()
    await using running = await startServer({
      maxConcurrent: 1,
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        await (ctx.rolloutId === 'first' ? first.promise : second.promise)
      }),
      grader: graderOf(async (ctx) => {
        running.controller.note(`grading ${ctx.rolloutId}`)
        if (ctx.rolloutId === 'r1') await judged.promise
        ctx.setReward(0.25)
      }),
    })
    const { url, controller } = running
    const state = (status: string, reward: number | null = null): unknown => ({
      rollout_id: 'r1',
      status,
      reward,
      err_message: null,
    })

    expect(await statusOf(url)).toStrictEqual(state('unknown'))
    await running.post({ rollout_id: 'first' })
    await running.post()
    expect(await statusOf(url)).toStrictEqual(state('queued'))
    first.resolve()
    await controller.until(() => controller.policyHeaders.length === 2)
    expect(await statusOf(url)).toStrictEqual(state('running'))
    second.resolve()
    await controller.until(() => controller.events.includes('grading r1'))
    expect(await statusOf(url)).toStrictEqual(state('grading'))
    judged.resolve()
    await controller.until(() => controller.callbacks.length === 4)
    expect(await statusOf(url)).toStrictEqual(state('success', 0.25))
  })

  it('has the reason of a failure', async () => {
    await using running = await startServer({
      workflow: workflowOf(() => Promise.reject(new Error('boom'))),
    })
    await running.post()
    await running.controller.bodies()

    expect(await statusOf(running.url)).toStrictEqual({
      rollout_id: 'r1',
      status: 'failure',
      reward: null,
      err_message: expect.stringMatching(/^thrown by run\(\) at \S+:\d+: boom$/) as unknown,
    })
  })

  it('is forgotten 15 minutes after the end', async () => {
    await using running = await startServer()
    await running.post()
    await running.controller.bodies()
    const now = performance.now()

    const clock = vi.spyOn(performance, 'now')
    try {
      clock.mockReturnValue(now + 14 * 60_000)
      expect(await statusOf(running.url)).toMatchObject({ status: 'success' })
      clock.mockReturnValue(now + 16 * 60_000)
      expect(await statusOf(running.url)).toMatchObject({ status: 'unknown' })
    } finally {
      clock.mockRestore()
    }
  })
})

describe('cancelling', () => {
  it('ends queued and running rollouts by id, closes their policy calls, and names the others', async () => {
    await using running = await startServer({ maxConcurrent: 1 })
    const { controller, url } = running
    controller.hanging = true
    await running.post({ rollout_id: 'a' })
    await running.post({ rollout_id: 'b' })
    await controller.until(() => controller.openPolicyCalls === 1)

    const response = await post(`${url}/rollout/cancel`, { ids: ['a', 'b', 'c'] })

    expect(await statusAndBody(response)).toStrictEqual({
      status: 200,
      body: {
        dispositions: { a: 'cancelled_running', b: 'cancelled_queued', c: 'not_found' },
      },
    })
    await controller.until(() => controller.callbacks.length === 4)
    await controller.until(() => controller.openPolicyCalls === 0)
    expect(controller.policyHeaders).toHaveLength(1)
    expect(await statusOf(url, 'a')).toStrictEqual({
      rollout_id: 'a',
      status: 'cancelled',
      reward: null,
      err_message: 'cancelled',
    })
    const again = await post(`${url}/rollout/cancel`, { ids: ['a'] })
    expect(await again.json()).toStrictEqual({ dispositions: { a: 'not_found' } })
  })

  it('selects by prefix, and all', async () => {
    await using running = await startServer()
    const { controller, url } = running
    controller.hanging = true
    await Promise.all(['x-1', 'x-2', 'y-1'].map((rollout_id) => running.post({ rollout_id })))
    await controller.until(() => controller.openPolicyCalls === 3)
    const cancel = async (body: unknown): Promise<unknown> =>
      (await post(`${url}/rollout/cancel`, body)).json()

    expect(await cancel({ prefix: 'x-' })).toStrictEqual({
      dispositions: { 'x-1': 'cancelled_running', 'x-2': 'cancelled_running' },
    })
    await controller.until(() => controller.openPolicyCalls === 1)
    expect(await cancel({ all: true })).toStrictEqual({
      dispositions: { 'y-1': 'cancelled_running' },
    })
    await controller.until(() => controller.callbacks.length === 6)
    expect(await cancel({ all: true })).toStrictEqual({ dispositions: {} })
    expect(await cancel({ ids: [] })).toStrictEqual({ dispositions: {} })
  })
})

describe('/health', () => {
  it('reports how busy the server is', async () => {
    await using running = await startServer({ maxConcurrent: 1 })
    const { controller, url } = running
    controller.hanging = true
    await running.post({ rollout_id: 'a' })
    await running.post({ rollout_id: 'b' })
    await controller.until(() => controller.openPolicyCalls === 1)

    expect(await statusAndBody(await fetch(`${url}/health`))).toStrictEqual({
      status: 200,
      body: {
        status: 'ok',
        concurrency: { max_concurrent: 1, queued: 1, running: 1 },
        undelivered: 0,
        retained_results: 0,
        instance_id: expect.stringMatching(/^[\da-f-]{36}$/),
        process_id: expect.stringMatching(/^[\da-f-]{36}$/),
        lifecycle: { accepting_rollouts: true, active_rollouts: 2 },
      },
    })
  })

  it('names the instance when it has a name', async () => {
    await using running = await startServer({ instanceId: 'pod-7', maxConcurrent: 3 })

    expect(await (await fetch(`${running.url}/health`)).json()).toMatchObject({
      concurrency: { max_concurrent: 3, queued: 0, running: 0 },
      instance_id: 'pod-7',
    })
  })
})
