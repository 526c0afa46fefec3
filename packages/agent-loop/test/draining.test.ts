import { createApp } from '@osmosis/agent-loop'
import { describe, expect, it } from 'vitest'

import { FakeTrainer, hang, said } from '../../../test/kit/index.ts'
import { answerOnce, loopOf, metrics, startApp } from './running-app.ts'

describe('draining', () => {
  it('refuses new rollouts, lets running ones finish, and shuts down after their results', async () => {
    const events: string[] = []
    await using running = await startApp({
      onStartup: () => void events.push('startup'),
      onShutdown: async () => void events.push('shutdown'),
    })
    let finish = (): void => undefined
    running.trainer.policy = () => (response) => {
      finish = () => void response.end(JSON.stringify(said('ok')))
    }
    running.trainer.otherwise = () => {
      events.push('completed')
      return 200
    }
    await running.init()
    await running.trainer.until(() => running.trainer.chats.length === 1)
    const drained = running.app.drain()
    const refused = await running.init({ rollout_id: 'r2' })
    expect([refused.status, refused.headers.get('retry-after')]).toStrictEqual([503, '5'])
    finish()
    await drained
    expect(events).toStrictEqual(['startup', 'completed', 'shutdown'])
  })

  it('ends running and waiting rollouts that outlast it, each with one ERROR, and frees their calls', async () => {
    await using running = await startApp({ maxConcurrent: 1 })
    running.trainer.policy = () => hang
    running.trainer.chatAnswers.push(said('ok'))
    await running.init({ rollout_id: 'over' })
    await running.trainer.results()
    await running.init({ rollout_id: 'r1' })
    await running.init({ rollout_id: 'r2' })
    await running.trainer.until(() => running.trainer.chats.length === 2)
    await running.app.drain({ waitSeconds: 0 })

    const [over, ...bodies] = running.trainer.completed.map(({ body }) => body)
    expect(over).toMatchObject({ rollout_id: 'over', status: 'COMPLETED' })
    const ended = (rollout_id: string, final_messages: unknown[]): unknown => ({
      rollout_id,
      status: 'ERROR',
      final_messages,
      finish_reason: 'error',
      error_message: 'rollout server shut down',
      metrics: metrics(),
      extra_fields: {},
    })
    expect(bodies).toHaveLength(2)
    expect(bodies).toEqual(
      expect.arrayContaining([ended('r1', [{ role: 'user', content: 'hi' }]), ended('r2', [])]),
    )
    await running.trainer.until(() => running.trainer.openChats === 0)
    expect(await running.health()).toMatchObject({ active_rollouts: 0, completed_rollouts: 3 })
  })

  it('starts no rollout whose tools are not loaded yet', async () => {
    const requested = Promise.withResolvers<void>()
    const tools = Promise.withResolvers<unknown>()
    await using running = await startApp({
      loop: loopOf(answerOnce, async () => {
        requested.resolve()
        return tools.promise
      }),
    })
    const answer = running.init()
    await requested.promise
    await running.app.drain()
    tools.resolve([])
    expect((await answer).status).toBe(503)
    expect(running.trainer.chats).toStrictEqual([])
    expect(await running.health()).toMatchObject({ active_rollouts: 0, completed_rollouts: 0 })
  })

  it('runs the shutdown hook also when it comes while the startup hook is running', async () => {
    const events: string[] = []
    const opened = Promise.withResolvers<void>()
    const app = createApp(loopOf(answerOnce), {
      logger: false,
      onStartup: async () => {
        events.push('begin')
        await opened.promise
        events.push('opened')
      },
      onShutdown: () => void events.push('shutdown'),
    })
    const starting = app.start()
    const closing = app.close()
    opened.resolve()
    await Promise.all([starting, closing])
    expect(events).toStrictEqual(['begin', 'opened', 'shutdown'])
  })

  it('starts nothing for a request after the end', async () => {
    const events: string[] = []
    const app = createApp(loopOf(answerOnce), {
      logger: false,
      onStartup: () => void events.push('startup'),
      onShutdown: () => void events.push('shutdown'),
    })
    await app.close()
    const answer = await app.fetch(new Request('http://x/health'))
    expect([answer.status, events]).toStrictEqual([200, []])
  })

  it('does not wait for a loop that ignores its signal', async () => {
    await using running = await startApp({
      loop: loopOf(async () => Promise.withResolvers<never>().promise),
    })
    await running.init()
    await running.app.drain({ waitSeconds: 0 })
    expect(running.trainer.completed.map(({ body }) => body['error_message'])).toStrictEqual([
      'rollout server shut down',
    ])
  })

  it('comes after a start that every request waits for', async () => {
    const started = Promise.withResolvers<void>()
    const events: string[] = []
    await using trainer = await new FakeTrainer().start()
    const app = createApp(
      loopOf(answerOnce, () => {
        events.push('rollout')
        return []
      }),
      {
        logger: false,
        onStartup: async () => {
          await started.promise
          events.push('startup')
        },
        onShutdown: () => void events.push('shutdown'),
      },
    )
    const body = JSON.stringify(trainer.initBody())
    const answer = app.fetch(new Request('http://app/v1/rollout/init', { method: 'POST', body }))
    // What another app does with such a request takes longer than accepting one.
    await using other = await startApp()
    await other.init()
    await other.trainer.results()
    expect(events).toStrictEqual([])
    started.resolve()
    expect((await answer).status).toBe(202)
    await app.drain()
    expect(events).toStrictEqual(['startup', 'rollout', 'shutdown'])
  })
})

it('aborts model calls that a loop did not wait for', async () => {
  const left: Promise<unknown>[] = []
  await using running = await startApp({
    loop: loopOf(async (ctx) => {
      left.push(ctx.chat(ctx.request.messages).catch((error: unknown) => error))
      await running.trainer.until(() => running.trainer.chats.length === 1)
      return ctx.complete([])
    }),
  })
  running.trainer.policy = () => hang
  await running.init()
  expect(await running.trainer.results()).toMatchObject([{ status: 'COMPLETED' }])
  expect(await left[0]).toMatchObject({ code: 'rollout_ended' })
})
