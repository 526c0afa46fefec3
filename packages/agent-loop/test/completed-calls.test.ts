import type { RolloutContext, RolloutResult } from '@osmosis/agent-loop'
import { describe, expect, it } from 'vitest'

import { hang, reset, said, type LoopTrainerAnswer } from '../../../test/kit/index.ts'
import { answerOnce, loopOf, metrics, startApp, type RunningAppOptions } from './running-app.ts'

const oneCall = { num_llm_calls: 1, prompt_tokens: 10, response_tokens: 4 }
const conversation = [
  { role: 'user', content: 'hi' },
  { role: 'assistant', content: 'ok' },
]

/** The `completed` bodies that one rollout of `run` leads to. */
async function resultsOf(
  run: (ctx: RolloutContext) => RolloutResult | Promise<RolloutResult>,
  options: RunningAppOptions & {
    answers?: LoopTrainerAnswer[]
    chatAnswers?: LoopTrainerAnswer[]
  } = {},
): Promise<unknown[]> {
  const { answers = [], chatAnswers = [], ...appOptions } = options
  await using running = await startApp({ loop: loopOf(run), ...appOptions })
  running.trainer.completedAnswers.push(...answers)
  running.trainer.chatAnswers.push(...chatAnswers)
  await running.init()
  await running.app.drain()
  return running.trainer.completed.map(({ body }) => body)
}

describe('the completed call', () => {
  it('has the fields of the protocol in their order, and omits a missing reward', async () => {
    await using running = await startApp()
    await running.init({ api_key: 'trainer-key' })
    await running.trainer.results()

    const [call] = running.trainer.completed
    expect(call?.body).toStrictEqual({
      rollout_id: 'r1',
      status: 'COMPLETED',
      final_messages: conversation,
      finish_reason: 'stop',
      metrics: expect.objectContaining(oneCall),
      extra_fields: {},
    })
    expect(Object.keys(call?.body ?? {})).toStrictEqual([
      'rollout_id',
      'status',
      'final_messages',
      'finish_reason',
      'metrics',
      'extra_fields',
    ])
    expect(call?.body['metrics']).toEqual(metrics(oneCall))
    expect(call?.path).toBe('/v1/rollout/completed')
    expect(call?.headers).toMatchObject({
      'content-type': 'application/json',
      authorization: 'Bearer trainer-key',
      'idempotency-key': 'r1/completed',
    })
  })

  it('sends a reward of 0, a finish reason of your own, and the tools and time that were counted', async () => {
    const [body] = await resultsOf((ctx) => {
      ctx.recordToolCall({ latencyMs: 30 })
      ctx.recordToolCall()
      return ctx.complete([], { finishReason: 'max_turns', reward: 0 })
    })
    expect(body).toEqual({
      rollout_id: 'r1',
      status: 'COMPLETED',
      final_messages: [],
      finish_reason: 'max_turns',
      reward: 0,
      metrics: metrics({ num_tool_calls: 2, tool_latency_ms: 30 }),
      extra_fields: {},
    })
  })

  it('contains an error that the loop reports', async () => {
    expect(await resultsOf((ctx) => ctx.error('Agent failed: no'))).toEqual([
      {
        rollout_id: 'r1',
        status: 'ERROR',
        final_messages: [],
        finish_reason: 'error',
        error_message: 'Agent failed: no',
        metrics: metrics(),
        extra_fields: {},
      },
    ])
  })

  it('has the messages of a reported error', async () => {
    const [body] = await resultsOf((ctx) => ctx.error('no', { finalMessages: conversation }))
    expect(body).toMatchObject({ status: 'ERROR', final_messages: conversation })
  })

  it('has no reward when it is an ERROR, whatever the loop says', async () => {
    const [body] = await resultsOf((ctx) => ({
      ...ctx.complete(conversation, { reward: 0.7 }),
      status: 'ERROR' as const,
      errorMessage: 'the tool server is down',
    }))
    expect(body).toMatchObject({ status: 'ERROR', error_message: 'the tool server is down' })
    expect(body).not.toMatchObject({ reward: 0.7 })
  })

  it('is one ERROR with the conversation so far and all metrics when run throws', async () => {
    const bodies = await resultsOf(async (ctx) => {
      ctx.recordToolCall({ latencyMs: 5 })
      await answerOnce(ctx)
      throw new Error('the tool broke')
    })
    expect(bodies).toEqual([
      {
        rollout_id: 'r1',
        status: 'ERROR',
        final_messages: conversation,
        finish_reason: 'error',
        error_message: expect.stringMatching(
          /^thrown by run\(\) at \S+completed-calls\.test\.ts:\d+: the tool broke$/,
        ) as unknown,
        metrics: metrics({ ...oneCall, num_tool_calls: 1, tool_latency_ms: 5 }),
        extra_fields: {},
      },
    ])
  })

  it.each<[string, unknown, RegExp]>([
    ['has no message', new RangeError(), / at \S+:\d+: RangeError$/],
    [
      'is an abort that run caused',
      new DOMException('cancelled', 'AbortError'),
      / at \S+:\d+: cancelled$/,
    ],
    ['is a string', 'no luck', /^thrown by run\(\): no luck$/],
    ['is nothing at all', undefined, /^thrown by run\(\): undefined$/],
  ])(
    'is one ERROR with a message when the error that run throws %s',
    async (_, thrown, message) => {
      const bodies = await resultsOf(() => {
        throw thrown
      })
      expect(bodies).toMatchObject([
        { status: 'ERROR', error_message: expect.stringMatching(message) as unknown },
      ])
      expect(bodies).toHaveLength(1)
    },
  )

  it.each<[string, (ctx: RolloutContext) => unknown, unknown]>([
    [
      'nothing',
      () => undefined,
      'run() must return the value of ctx.complete() or ctx.error(), got undefined.',
    ],
    [
      'a status of its own',
      () => ({ status: 'DONE', finalMessages: [] }),
      'run() must return the value of ctx.complete() or ctx.error(), got an object.',
    ],
    [
      'a reward that is NaN',
      (ctx) => ctx.complete([], { reward: Number.NaN }),
      expect.stringMatching(/^thrown by run\(\) at \S+:\d+: A reward must be .*; got NaN\.$/),
    ],
    [
      'a message that is a string',
      (ctx) => ctx.complete(['hi' as unknown as object]),
      'The final messages must be objects; the one at index 0 is "hi".',
    ],
    [
      'a message that is not JSON',
      (ctx) => ctx.complete([{ role: 'user', content: 1n }]),
      'Do not know how to serialize a BigInt',
    ],
  ])('is one ERROR that explains the mistake when run returns %s', async (_, run, message) => {
    const bodies = await resultsOf((ctx) => run(ctx) as RolloutResult)
    expect(bodies).toEqual([
      {
        rollout_id: 'r1',
        status: 'ERROR',
        final_messages: [],
        finish_reason: 'error',
        error_message: message,
        metrics: metrics(),
        extra_fields: {},
      },
    ])
  })
})

describe('delivering the completed call', () => {
  it.each<[string, LoopTrainerAnswer[]]>([
    ['500s', [500, 500, 500]],
    ['a reset', [reset]],
    ['408, 425 and 429', [408, 425, 429]],
    ['an answer that breaks off', [(response) => void response.writeHead(503).destroy()]],
  ])('repeats the same body under the same key after %s', async (_, answers) => {
    await using running = await startApp({ loop: loopOf((ctx) => ctx.complete([], { reward: 1 })) })
    running.trainer.completedAnswers.push(...answers)
    await running.init()
    await running.app.drain()

    const { completed } = running.trainer
    expect(completed.map(({ headers }) => headers['idempotency-key'])).toStrictEqual(
      Array.from({ length: answers.length + 1 }, () => 'r1/completed'),
    )
    expect(new Set(completed.map(({ raw }) => raw)).size).toBe(1)
    expect(completed[0]?.body).toMatchObject({ status: 'COMPLETED', reward: 1 })
    expect(running.app.undelivered).toBe(0)
  })

  it('never turns a success that was not delivered into a failure', async () => {
    await using running = await startApp({ loop: loopOf((ctx) => ctx.complete([], { reward: 1 })) })
    running.trainer.otherwise = () => 500
    await running.init()
    await running.app.drain()

    const { completed } = running.trainer
    expect(completed.map(({ body }) => body['status'])).toStrictEqual(
      Array.from({ length: 4 }, () => 'COMPLETED'),
    )
    expect(await running.health()).toEqual({
      status: 'healthy',
      agent_loop: 'test-loop',
      active_rollouts: 0,
      queued_rollouts: 0,
      completed_rollouts: 1,
      undelivered: 0,
    })
  })

  it('sends the success again when its acknowledgement comes too late, and nothing else', async () => {
    const bodies = await resultsOf((ctx) => ctx.complete([], { reward: 1 }), {
      settings: { client: { timeoutSeconds: 1 } },
      answers: [hang],
    })
    expect(bodies).toMatchObject([
      { status: 'COMPLETED', reward: 1 },
      { status: 'COMPLETED', reward: 1 },
    ])
    expect(bodies[0]).toStrictEqual(bodies[1])
  })

  it('outlasts a trainer that is unreachable for longer than a few attempts, when no number is set', async () => {
    const bodies = await resultsOf((ctx) => ctx.complete([], { reward: 1 }), {
      settings: { client: { completeRolloutRetries: null } },
      answers: [500, 500, 500, 500],
    })
    expect(bodies).toHaveLength(5)
  })

  it('makes one attempt without retries', async () => {
    const bodies = await resultsOf((ctx) => ctx.complete([]), {
      settings: { client: { completeRolloutRetries: 0 } },
      answers: [500],
    })
    expect(bodies).toHaveLength(1)
  })

  it('removes secrets from results and logs', async () => {
    await using running = await startApp({
      apiKey: 'server-key',
      loop: loopOf(async (ctx) => {
        await answerOnce(ctx)
        throw new Error('sent trainer-key to the wrong place')
      }),
    })
    await running.init({ api_key: 'trainer-key' }, { authorization: 'Bearer server-key' })
    const [body] = await running.trainer.results()
    await running.app.drain()

    expect(body).toMatchObject({
      error_message: expect.stringMatching(/: sent \[redacted\] to the wrong place$/) as unknown,
    })
    expect(JSON.stringify(running.log)).not.toMatch(/trainer-key|server-key/)
  })

  it('goes to the base path that the trainer gave, without doubled slashes', async () => {
    await using running = await startApp()
    await running.init({ server_url: `${running.trainer.url}/base///` })
    await running.trainer.results()

    const { chats, completed } = running.trainer
    expect([chats[0]?.path, completed[0]?.path]).toStrictEqual([
      '/base/v1/chat/completions',
      '/base/v1/rollout/completed',
    ])
  })

  it('carries ids of any characters in its headers', async () => {
    await using running = await startApp()
    await running.init({ rollout_id: 'exp/1 ü' })
    const [body] = await running.trainer.results()

    expect(body?.['rollout_id']).toBe('exp/1 ü')
    expect(running.trainer.completed[0]?.headers['idempotency-key']).toBe(
      'exp%2F1%20%C3%BC/completed',
    )
    expect(running.trainer.chats[0]?.headers['idempotency-key']).toBe('exp%2F1%20%C3%BC/chat/1')
  })
})

it('sends the messages of the policy back to the trainer unchanged', async () => {
  const answer = `{"choices":[{"message":{"role":"assistant","content":null,"x":1.0,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"a":1.0,"b":9007199254740993}}}]}}]}`
  const message = /"message":(\{.*\})\}\]\}$/.exec(answer)?.[1]
  await using running = await startApp({
    loop: loopOf(async (ctx) => {
      const first = await ctx.chat(ctx.request.messages)
      const messages = [...ctx.request.messages, { ...first.message }]
      const second = await ctx.chat(messages)
      return ctx.complete([...messages, second.message])
    }),
  })
  running.trainer.chatAnswers.push((response) => void response.end(answer), said('ok'))
  await running.init()
  await running.trainer.results()

  const sentConversation = `[{"role":"user","content":"hi"},${message}]`
  expect(running.trainer.chats[1]?.raw).toContain(`"messages":${sentConversation}`)
  expect(running.trainer.completed[0]?.raw).toContain(
    `"final_messages":${sentConversation.slice(0, -1)},`,
  )
})
