import { GroupGrader, type GroupGraderContext } from '@osmosis/core'
import { post, type FakeController } from '../../../test/kit/index.ts'
import { describe, expect, it } from 'vitest'

import { leasing } from './leasing-server.ts'
import { askPolicy, startServer, workflowOf } from './running-server.ts'

class Ranks extends GroupGrader {
  async gradeGroup({ members, group, failed }: GroupGraderContext): Promise<void> {
    for (const member of members) {
      member.sample.metrics = { failed: failed.length }
      member.setReward(member.attempt / group.size)
    }
  }
}

/** Fails rollouts that are named so. */
const workflow = workflowOf(async (ctx) => {
  await askPolicy(ctx)
  if (ctx.rolloutId.startsWith('broken')) throw new Error('the agent broke')
})

function attemptBody(rollout_id: string, attempt: number, size = 3): Record<string, unknown> {
  return { rollout_id, group: { id: 'row 7', attempt, size } }
}

/** What grader callbacks said, by rollout. */
function gradings(controller: FakeController): Record<string, unknown> {
  const graded = controller.callbacks.filter(({ kind }) => kind === 'grader')
  return Object.fromEntries(
    graded.map(({ body }) => {
      const { rollout_id, status, sample, err_message } = body as {
        rollout_id: string
        status: string
        sample: { reward: number | null; metrics: object } | null
        err_message: string | null
      }
      return [rollout_id, [status, sample?.reward ?? null, err_message]]
    }),
  )
}

describe('a group', () => {
  it('of a controller is graded together; failed attempts get no reward', async () => {
    await using running = await startServer({ workflow, grader: Ranks })
    const { controller, url } = running
    await running.post(attemptBody('a', 1))
    await running.post(attemptBody('broken', 2))
    // Both completions were delivered, and the group waits for its third attempt.
    await controller.until(() => controller.callbacks.length === 3)
    expect(gradings(controller)).toStrictEqual({
      broken: ['failure', null, expect.stringMatching(/: the agent broke$/)],
    })
    expect(await (await fetch(`${url}/rollout/a/status`)).json()).toMatchObject({
      status: 'grading',
      reward: null,
    })

    await running.post(attemptBody('c', 3))
    await controller.until(() => controller.callbacks.length === 6)
    expect(gradings(controller)).toStrictEqual({
      a: ['success', 1 / 3, null],
      broken: ['failure', null, expect.stringMatching(/: the agent broke$/)],
      c: ['success', 1, null],
    })
    expect(controller.callbacks.at(-1)?.body).toMatchObject({ sample: { metrics: { failed: 1 } } })
  })

  it('whose results are fetched is graded together', async () => {
    await using running = await leasing({ workflow, grader: Ranks })
    const handles = [
      await running.start(attemptBody('a', 1, 2)),
      await running.start(attemptBody('b', 2, 2)),
    ]
    const results = await Promise.all(handles.map(async (handle) => (await handle.until()).text))
    expect(results.map((text) => (JSON.parse(text) as { sample: object }).sample)).toMatchObject([
      { reward: 0.5 },
      { reward: 1 },
    ])
  })

  it('continues without an attempt that is cancelled while it waits', async () => {
    await using running = await startServer({ workflow, grader: Ranks })
    const { controller, url } = running
    await running.post(attemptBody('a', 1))
    await controller.until(() => controller.callbacks.length === 1)
    await post(`${url}/rollout/cancel`, { ids: ['a'] })
    await controller.until(() => controller.callbacks.length === 2)
    await running.post(attemptBody('b', 2))
    await running.post(attemptBody('c', 3))
    await controller.until(() => controller.callbacks.length === 6)
    expect(gradings(controller)).toStrictEqual({
      a: ['failure', null, 'cancelled'],
      b: ['success', 2 / 3, null],
      c: ['success', 1, null],
    })
  })

  it('that is incomplete when the server ends fails with that reason', async () => {
    await using running = await startServer({ workflow, grader: Ranks, drainSeconds: 0.05 })
    const { controller, server } = running
    await running.post(attemptBody('a', 1))
    await controller.until(() => controller.callbacks.length === 1)
    await server.drain()
    expect(gradings(controller)).toStrictEqual({
      a: ['failure', null, 'rollout server shut down'],
    })
  })
})

it('a body with an empty group is refused, and the error names the key', async () => {
  await using running = await startServer({ workflow, grader: Ranks })
  const response = await running.post({ group: { id: 'row 7', attempt: 0 } })
  expect(response.status).toBe(422)
  expect(await response.text()).toContain('attempt')
})
