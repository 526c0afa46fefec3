import { describe, expect, it } from 'vitest'

import { said, statusAndBody, type LoopTrainerAnswer } from '../../../test/kit/index.ts'
import { answerOnce, loopOf, startApp, type RunningApp } from './running-app.ts'
import { stoppedClock } from './stopped-clock.ts'

const accepted = (rolloutId: string): unknown => ({
  status: 202,
  body: { rollout_id: rolloutId, tools: [] },
})

describe('sending a rollout again', () => {
  it('gives twenty requests concurrently one answer and one run, however long the tools take', async () => {
    let calls = 0
    const release = Promise.withResolvers<void>()
    await using running = await startApp({
      loop: loopOf(answerOnce, async () => {
        calls += 1
        await release.promise
        return []
      }),
    })
    const answers = Promise.all(
      Array.from({ length: 20 }, async () => statusAndBody(await running.init())),
    )
    await expect.poll(() => calls).toBe(1)
    release.resolve()

    expect(new Set((await answers).map((answer) => JSON.stringify(answer))).size).toBe(1)
    expect((await answers)[0]).toStrictEqual(accepted('r1'))
    await running.app.drain()
    expect([calls, running.trainer.completed.length]).toStrictEqual([1, 1])
  })

  it('gives requests that wait for failing tools the same failure, and the next one a new attempt', async () => {
    const repeated = 'a repeated request has another body; the first one is used'
    let calls = 0
    const release = Promise.withResolvers<void>()
    await using running = await startApp({
      loop: loopOf(answerOnce, async () => {
        calls += 1
        if (calls > 1) return []
        await release.promise
        throw new Error('not yet')
      }),
    })
    const answers = Promise.all(
      Array.from({ length: 5 }, async (_, n) => running.init({ metadata: { n } })),
    )
    // All of them wait: the log says so of every one but the first.
    const waiting = (): number => running.log.filter(({ message }) => message === repeated).length
    await expect.poll(waiting).toBe(4)
    release.resolve()

    expect((await answers).map(({ status }) => status)).toStrictEqual([500, 500, 500, 500, 500])
    expect(calls).toBe(1)
    expect((await running.init()).status).toBe(202)
    await running.app.drain()
    expect(running.trainer.completed).toHaveLength(1)
  })

  it('with one idempotency key is the first rollout, under whatever id', async () => {
    await using running = await startApp()
    const first = await statusAndBody(await running.init({ rollout_id: 'a', idempotency_key: 'k' }))
    await running.trainer.results()
    const second = await statusAndBody(
      await running.init({ rollout_id: 'b', idempotency_key: 'k' }),
    )
    await running.app.drain()

    expect([first, second]).toStrictEqual([accepted('a'), accepted('a')])
    expect(running.trainer.completed.map(({ body }) => body['rollout_id'])).toStrictEqual(['a'])
    expect(running.log).toContainEqual({
      level: 'warn',
      message: 'a repeated request has another body; the first one is used',
      fields: { rollout_id: 'b', key: 'key k' },
    })
  })

  it('is another rollout with another key, and an id does not match the key of another rollout', async () => {
    await using running = await startApp()
    await running.init({ rollout_id: 'a', idempotency_key: 'k' })
    await running.init({ rollout_id: 'b', idempotency_key: 'l' })
    await running.init({ rollout_id: 'k', idempotency_key: '' })
    const bodies = await running.trainer.results(3)
    expect(new Set(bodies.map(({ rollout_id }) => rollout_id))).toStrictEqual(
      new Set(['a', 'b', 'k']),
    )
  })

  it.each<[string, (running: RunningApp, held: LoopTrainerAnswer) => Promise<unknown>]>([
    [
      'waits',
      async (running, held) => {
        running.trainer.chatAnswers.push(held)
        await running.init({ rollout_id: 'before' })
        await running.init()
      },
    ],
    [
      'runs',
      async (running, held) => {
        running.trainer.chatAnswers.push(held)
        await running.init()
        await running.trainer.until(() => running.trainer.chats.length === 1)
      },
    ],
    [
      'is being delivered',
      async (running, held) => {
        running.trainer.completedAnswers.push(held)
        await running.init()
        await running.trainer.results()
      },
    ],
    [
      'is over',
      async (running) => {
        await running.init()
        await expect
          .poll(running.health)
          .toMatchObject({ active_rollouts: 0, completed_rollouts: 1 })
      },
    ],
  ])('changes nothing while the first one %s', async (_, begin) => {
    const free = Promise.withResolvers<void>()
    const held: LoopTrainerAnswer = async (response) => {
      await free.promise
      response.end(JSON.stringify(said('ok')))
    }
    await using running = await startApp({ maxConcurrent: 1 })
    await begin(running, held)
    expect(await statusAndBody(await running.init())).toStrictEqual(accepted('r1'))
    free.resolve()
    await running.app.drain()

    const ids = running.trainer.completed.map(({ body }) => body['rollout_id'])
    expect(ids.filter((id) => id === 'r1')).toHaveLength(1)
  })

  it('after a failure is still the same rollout', async () => {
    await using running = await startApp({
      loop: loopOf(() => {
        throw new Error('no')
      }),
    })
    await running.init()
    await running.trainer.results()
    expect(await statusAndBody(await running.init())).toStrictEqual(accepted('r1'))
    await running.app.drain()
    expect(running.trainer.completed).toHaveLength(1)
  })

  it('runs again after the retention time, counted from its end', async () => {
    const pass = stoppedClock()
    await using running = await startApp({ recordTtlSeconds: 100 })
    const remembered = async (completed_rollouts: number): Promise<void> =>
      expect.poll(running.health).toMatchObject({ active_rollouts: 0, completed_rollouts })
    await running.init({ rollout_id: 'old' })
    await remembered(1)
    pass(50_000)
    await running.init({ rollout_id: 'new' })
    await remembered(2)
    pass(60_000)
    await remembered(1)

    await running.init({ rollout_id: 'new' })
    await running.init({ rollout_id: 'old' })
    await running.app.drain()
    const ids = running.trainer.completed.map(({ body }) => body['rollout_id'])
    expect(ids).toStrictEqual(['old', 'new', 'old'])
  })
})
