import { describe, expect, it } from 'vitest'

import { answerOnce, loopOf, startApp, told } from './running-app.ts'

const accepted = (rolloutId: string): unknown => ({
  status: 202,
  body: { rollout_id: rolloutId, tools: [] },
})

describe('sending a rollout again', () => {
  it('gives twenty requests at the same time one answer and one run, however long the tools take', async () => {
    let asked = 0
    const release = Promise.withResolvers<void>()
    await using running = await startApp({
      loop: loopOf(answerOnce, async () => {
        asked += 1
        await release.promise
        return []
      }),
    })
    const answers = Promise.all(Array.from({ length: 20 }, async () => told(await running.init())))
    await expect.poll(() => asked).toBe(1)
    release.resolve()

    expect(new Set((await answers).map((answer) => JSON.stringify(answer))).size).toBe(1)
    expect((await answers)[0]).toStrictEqual(accepted('r1'))
    await running.app.drain()
    expect([asked, running.trainer.completed.length]).toStrictEqual([1, 1])
  })

  it('gives requests that wait for failing tools the same failure, and the next one a new try', async () => {
    let asked = 0
    const release = Promise.withResolvers<void>()
    await using running = await startApp({
      loop: loopOf(answerOnce, async () => {
        asked += 1
        if (asked > 1) return []
        await release.promise
        throw new Error('not yet')
      }),
    })
    const answers = Promise.all(Array.from({ length: 5 }, async () => running.init()))
    await expect.poll(() => asked).toBe(1)
    release.resolve()

    expect((await answers).map(({ status }) => status)).toContain(500)
    expect((await running.init()).status).toBe(202)
    await running.app.drain()
    expect(running.trainer.completed).toHaveLength(1)
  })

  it('with one idempotency key is the first rollout, under whatever id', async () => {
    await using running = await startApp()
    const first = await told(await running.init({ rollout_id: 'a', idempotency_key: 'k' }))
    await running.trainer.results()
    const second = await told(await running.init({ rollout_id: 'b', idempotency_key: 'k' }))
    await running.app.drain()

    expect([first, second]).toStrictEqual([accepted('a'), accepted('a')])
    expect(running.trainer.completed.map(({ body }) => body['rollout_id'])).toStrictEqual(['a'])
    expect(running.log).toContainEqual({
      level: 'warn',
      message: 'a repeated init has another body; the first one counts',
      fields: { rollout_id: 'b', idempotency_key: 'k' },
    })
  })

  it('is another rollout with another key, and ids are no keys of others', async () => {
    await using running = await startApp()
    await running.init({ rollout_id: 'a', idempotency_key: 'k' })
    await running.init({ rollout_id: 'b', idempotency_key: 'l' })
    await running.init({ rollout_id: 'k', idempotency_key: '' })
    const bodies = await running.trainer.results(3)
    expect(new Set(bodies.map(({ rollout_id }) => rollout_id))).toStrictEqual(
      new Set(['a', 'b', 'k']),
    )
  })

  it('after a failure is still the same rollout', async () => {
    await using running = await startApp({
      loop: loopOf(() => {
        throw new Error('no')
      }),
    })
    await running.init()
    await running.trainer.results()
    expect(await told(await running.init())).toStrictEqual(accepted('r1'))
    await running.app.drain()
    expect(running.trainer.completed).toHaveLength(1)
  })

  it('runs again when the time of its record is over', async () => {
    await using running = await startApp({ recordTtlSeconds: 0.2 })
    await running.init()
    await running.trainer.results()
    await expect.poll(running.health).toMatchObject({ active_rollouts: 0, completed_rollouts: 0 })
    await running.init()
    expect(await running.trainer.results(2)).toHaveLength(2)
  })
})
