import { createApp } from '@osmosis/agent-loop'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { hang, said } from '../../../test/kit/index.ts'
import { answerOnce, loopOf, startApp } from './running-app.ts'

describe('concurrent rollouts', () => {
  it.each([1, 2])(
    'are at most %i when that is the limit, first come, first served',
    async (limit) => {
      let running = 0
      let peak = 0
      const started: string[] = []
      const allAccepted = Promise.withResolvers<void>()
      await using server = await startApp({
        maxConcurrent: limit,
        loop: loopOf(async (ctx) => {
          running += 1
          peak = Math.max(peak, running)
          started.push(ctx.request.rolloutId)
          await allAccepted.promise
          const result = await answerOnce(ctx)
          running -= 1
          return result
        }),
      })
      const ids = ['r1', 'r2', 'r3', 'r4', 'r5']
      for (const rollout_id of ids) await server.init({ rollout_id })
      allAccepted.resolve()
      await server.trainer.results(5)
      expect([peak, started]).toStrictEqual([limit, ids])
    },
  )

  it('are counted by health: active with those that wait, then completed', async () => {
    await using running = await startApp({ maxConcurrent: 2 })
    const idle = {
      status: 'healthy',
      agent_loop: 'test-loop',
      active_rollouts: 0,
      queued_rollouts: 0,
      completed_rollouts: 0,
      undelivered: 0,
    }
    expect(await running.health()).toStrictEqual(idle)

    const answers: (() => void)[] = []
    running.trainer.policy = () => (response) =>
      void answers.push(() => response.end(JSON.stringify(said('ok'))))
    for (let n = 0; n < 5; n += 1) await running.init({ rollout_id: `r${n}` })
    await running.trainer.until(() => answers.length === 2)
    expect(await running.health()).toStrictEqual({
      ...idle,
      active_rollouts: 5,
      queued_rollouts: 3,
    })

    for (let n = 0; n < 5; n += 1) {
      await running.trainer.until(() => answers.length > n)
      answers[n]?.()
    }
    await expect.poll(running.health).toStrictEqual({ ...idle, completed_rollouts: 5 })
  })

  it('are no longer active when they could not call their trainer', async () => {
    await using running = await startApp({ settings: { client: { maxRetries: 0 } } })
    // No header can carry it.
    expect((await running.init({ api_key: 'two\nlines' })).status).toBe(202)
    await expect.poll(running.health).toMatchObject({
      active_rollouts: 0,
      completed_rollouts: 1,
      undelivered: 0,
    })
    expect([running.trainer.chats, running.trainer.completed]).toStrictEqual([[], []])
    expect(JSON.stringify(running.log)).not.toMatch(/two\\+nlines/)
  })

  it('are answered 503 with Retry-After beyond the queue, when that has a limit', async () => {
    await using running = await startApp({ maxConcurrent: 1, maxQueued: 1 })
    running.trainer.policy = () => hang
    const answers = []
    for (let n = 0; n < 3; n += 1) answers.push(await running.init({ rollout_id: `r${n}` }))
    expect(answers.map(({ status }) => status)).toStrictEqual([202, 202, 503])
    expect(answers[2]?.headers.get('retry-after')).toBe('5')
  })

  it('run at once while a place is free, although none may wait', async () => {
    await using running = await startApp({ maxConcurrent: 1, maxQueued: 0 })
    running.trainer.policy = () => hang
    const answers = []
    for (let n = 0; n < 2; n += 1) answers.push(await running.init({ rollout_id: `r${n}` }))
    expect(answers.map(({ status }) => status)).toStrictEqual([202, 503])
  })

  it('hold their slot no longer than the time limit of the server, when there is one', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    await using running = await startApp({
      maxConcurrent: 1,
      settings: { server: { requestTimeoutSeconds: 10 } },
      loop: loopOf(async (ctx) => {
        if (ctx.request.rolloutId === 'quick') return ctx.complete([])
        return Promise.withResolvers<never>().promise
      }),
    })
    await running.init({ rollout_id: 'hung' })
    await running.init({ rollout_id: 'quick' })
    await vi.advanceTimersByTimeAsync(10_000)
    const bodies = await running.trainer.results(2)
    vi.useRealTimers()

    expect(bodies).toHaveLength(2)
    expect(bodies).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          rollout_id: 'hung',
          status: 'ERROR',
          error_message: 'the rollout took longer than 10 s',
        }),
        expect.objectContaining({ rollout_id: 'quick', status: 'COMPLETED' }),
      ]),
    )
  })

  it.each([0, -1, 1.5])('cannot be limited to %d', (maxConcurrent) => {
    expect(() => createApp(loopOf(answerOnce), { maxConcurrent })).toThrow(
      `maxConcurrent must be a whole number of at least 1, or null for no limit; got ${maxConcurrent}.`,
    )
  })
})
