import { setTimeout as sleep } from 'node:timers/promises'

import { describe, expect, it } from 'vitest'

import { askPolicy, startServer, workflowOf } from './running-server.ts'

async function failureOf(running: Awaited<ReturnType<typeof startServer>>): Promise<unknown> {
  const [completion] = await running.controller.bodies(1)
  const { status, err_message, err_category } = completion as Record<string, unknown>
  return { status, err_message, err_category }
}

describe('the deadline of a workflow', () => {
  it('counts the time in the queue', async () => {
    const release = Promise.withResolvers<void>()
    await using running = await startServer({
      maxConcurrent: 1,
      workflow: workflowOf(() => release.promise),
    })
    await running.post({ rollout_id: 'first', grader_callback_url: null })
    await running.post({ rollout_id: 'second', agent_timeout_sec: 0.15 })

    const { controller } = running
    const [completion] = await controller.bodies(1)
    expect(completion).toStrictEqual({
      rollout_id: 'second',
      status: 'failure',
      extra_fields: null,
      err_message: expect.stringMatching(
        /^workflow exceeded its 0\.15s deadline \(0\.\ds of it spent queued\)$/,
      ) as string,
      err_category: 'timeout',
    })
    release.resolve()
  })

  it('has passed at once when it is zero or less, and the workflow is not started', async () => {
    let started = false
    await using running = await startServer({
      workflow: workflowOf(() => {
        started = true
      }),
    })
    await running.post({ agent_timeout_sec: -1 })

    expect(await failureOf(running)).toStrictEqual({
      status: 'failure',
      err_message: 'workflow exceeded its -1s deadline',
      err_category: 'timeout',
    })
    expect(started).toBe(false)
  })

  it('is reported although user code swallows the abort and never settles', async () => {
    await using running = await startServer({
      workflow: workflowOf(async (ctx) => {
        await sleep(10_000, undefined, { signal: ctx.signal }).catch(() => undefined)
        await new Promise(() => undefined)
      }),
    })
    await running.post({ agent_timeout_sec: 0.02 })

    expect(await failureOf(running)).toStrictEqual({
      status: 'failure',
      err_message: 'workflow exceeded its 0.02s deadline',
      err_category: 'timeout',
    })
  })

  it('is reported although user code blocked the thread past it and then returned', async () => {
    await using running = await startServer({
      workflow: workflowOf(() => {
        const end = performance.now() + 60
        while (performance.now() < end);
      }),
    })
    await running.post({ agent_timeout_sec: 0.02 })

    expect(await failureOf(running)).toStrictEqual({
      status: 'failure',
      err_message: 'workflow exceeded its 0.02s deadline',
      err_category: 'timeout',
    })
  })

  it('closes the sockets of policy calls that are in progress', async () => {
    await using running = await startServer({ workflow: workflowOf((ctx) => askPolicy(ctx)) })
    const { controller } = running
    controller.hanging = true
    await running.post({ agent_timeout_sec: 0.5 })
    await controller.until(() => controller.openPolicyCalls === 1)

    await controller.until(() => controller.openPolicyCalls === 0)
    expect(await failureOf(running)).toMatchObject({ err_category: 'timeout' })
  })
})
