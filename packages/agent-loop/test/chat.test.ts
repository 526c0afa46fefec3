import { OsmosisRolloutError, type ChatResult, type CompletionParams } from '@osmosis/agent-loop'
import { isOsmosisError, type PromptMessage } from '@osmosis/core'
import type { AssistantMessage, ChatToolCall } from '@osmosis/core/policy'
import { describe, expect, it } from 'vitest'

import {
  type FakeTrainer,
  hang,
  reset,
  said,
  type LoopTrainerAnswer,
} from '../../../test/kit/index.ts'
import { loopOf, metrics, startApp, type RunningAppOptions } from './running-app.ts'

interface ChatOutcome {
  /** What `ctx.chat` gave, or what it threw. */
  outcome: unknown
  trainer: FakeTrainer
  log: unknown[]
  body: Record<string, unknown> | undefined
}

/** Asks once inside a rollout, with these answers of the trainer. */
async function ask(
  answers: LoopTrainerAnswer[],
  params: Readonly<CompletionParams> = {},
  options: RunningAppOptions & { overrides?: Record<string, unknown> } = {},
): Promise<ChatOutcome> {
  const { overrides, ...appOptions } = options
  let outcome: unknown
  await using running = await startApp({
    loop: loopOf(async (ctx) => {
      outcome = await ctx.chat(ctx.request.messages, params).catch((error: unknown) => error)
      return ctx.complete([])
    }),
    ...appOptions,
  })
  running.trainer.chatAnswers.push(...answers)
  await running.init(overrides)
  const [body] = await running.trainer.results()
  return { outcome, trainer: running.trainer, log: running.log, body }
}

describe('a model call', () => {
  it('has the body of the protocol, byte by byte', async () => {
    const messages = [{ role: 'user', content: null, extra: null }]
    const { trainer } = await ask([], {}, { overrides: { messages } })
    expect(trainer.chats[0]?.raw).toBe(
      '{"model":"default","messages":[{"role":"user","content":null,"extra":null}],"rollout_id":"r1","temperature":1,"top_p":1,"max_tokens":512,"logprobs":true}',
    )
  })

  it('sends the parameters of the protocol, and warns once of others', async () => {
    const params = {
      temperature: 0.5,
      top_p: 0.9,
      max_tokens: 64,
      stop: 'END',
      logprobs: false,
      model: 'm',
      top_k: 20,
    }
    let calls = 0
    const { trainer, log } = await ask([], params, {
      loop: loopOf(async (ctx) => {
        for (; calls < 2; calls += 1) await ctx.chat([], params)
        return ctx.complete([])
      }),
    })
    expect(trainer.chats[0]?.raw).toBe(
      '{"model":"m","messages":[],"rollout_id":"r1","temperature":0.5,"top_p":0.9,"max_tokens":64,"stop":["END"],"logprobs":false}',
    )
    const message = 'a parameter of ctx.chat is not part of the protocol'
    expect(log.filter((line) => (line as { message: string }).message === message)).toStrictEqual([
      { level: 'warn', message, fields: { parameter: 'top_k' } },
    ])
  })

  it('sends stop as a list of texts, and omits what is neither a text nor a list', async () => {
    const stops: unknown[] = [null, 123, {}, '', ['a', 1], []]
    const { trainer } = await ask(
      [],
      {},
      {
        loop: loopOf(async (ctx) => {
          for (const stop of stops) await ctx.chat([], { stop: stop as never })
          return ctx.complete([])
        }),
      },
    )
    expect(trainer.chats.map(({ body }) => body['stop'])).toStrictEqual([
      undefined,
      undefined,
      undefined,
      [''],
      ['a', '1'],
      [],
    ])
  })

  it('has the key of the trainer and an idempotency key that all attempts share', async () => {
    const { trainer } = await ask([500], {}, { overrides: { api_key: 'trainer-key' } })
    expect(trainer.chats.map(({ headers }) => headers)).toMatchObject([
      { authorization: 'Bearer trainer-key', 'idempotency-key': 'r1/chat/1' },
      { authorization: 'Bearer trainer-key', 'idempotency-key': 'r1/chat/1' },
    ])
    const { trainer: open } = await ask([])
    expect(open.chats[0]?.headers).not.toHaveProperty('authorization')
  })

  it.each<[string, CompletionParams, string]>([
    [
      'a temperature of null',
      { temperature: null as never },
      'temperature must be a number, got null.',
    ],
    [
      'messages',
      { messages: [] },
      'messages is set by ctx.chat and cannot be passed as a parameter.',
    ],
    [
      'a rollout id',
      { rollout_id: 'x' },
      'rollout_id is set by ctx.chat and cannot be passed as a parameter.',
    ],
  ])('is not made with %s among its parameters', async (_, params, message) => {
    const { outcome, trainer } = await ask([], params)
    expect(outcome).toMatchObject({
      name: 'OsmosisValidationError',
      code: 'invalid_request',
      message,
    })
    expect(trainer.chats).toStrictEqual([])
  })

  it.each([
    ['hi', 'The messages of ctx.chat must be an array of messages, got "hi".'],
    [['hi'], 'The messages of ctx.chat must be objects; the one at index 0 is "hi".'],
  ])('is not made with the messages %j', async (messages, message) => {
    let outcome: unknown
    const { trainer } = await ask(
      [],
      {},
      {
        loop: loopOf(async (ctx) => {
          outcome = await ctx.chat(messages as never).catch((error: unknown) => error)
          return ctx.complete([])
        }),
      },
    )
    expect(outcome).toMatchObject({
      name: 'OsmosisValidationError',
      code: 'invalid_request',
      message,
    })
    expect(trainer.chats).toStrictEqual([])
  })
})

describe('an answer', () => {
  it('is the unchanged message, with usage, tool calls and finish reason', async () => {
    const call: ChatToolCall = {
      id: 'c1',
      type: 'function',
      function: { name: 'add', arguments: '{"a": 1}' },
    }
    const message: AssistantMessage = {
      role: 'assistant',
      content: null,
      tool_calls: [call],
      more: null,
    }
    const usage = { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 }
    const answer = { choices: [{ message, finish_reason: 'tool_calls' }], usage, token_ids: [1, 2] }
    const { outcome, body } = await ask([answer])
    expect(outcome).toStrictEqual({
      message,
      usage,
      finishReason: 'tool_calls',
      tokenIds: [1, 2],
      logprobs: [],
      hasToolCalls: true,
      toolCalls: [call],
      content: null,
    } satisfies ChatResult)
    expect(body?.['metrics']).toEqual(
      metrics({ num_llm_calls: 1, prompt_tokens: 10, response_tokens: 4 }),
    )
  })

  it.each<[string, object, object]>([
    ['no usage', { usage: null }, { usage: {} }],
    [
      'null for a count',
      { usage: { prompt_tokens: null, completion_tokens: 2 } },
      { usage: { completion_tokens: 2 } },
    ],
    ['no token ids', { token_ids: null, logprobs: null }, { tokenIds: [], logprobs: [] }],
  ])('may have %s', async (_, fields, expected) => {
    const message = { role: 'assistant', content: 'ok', tool_calls: null }
    const { outcome } = await ask([{ choices: [{ message }], ...fields }])
    expect(outcome).toMatchObject({
      message,
      finishReason: 'stop',
      hasToolCalls: false,
      toolCalls: [],
      content: 'ok',
      ...expected,
    })
  })

  it('may end without a reason', async () => {
    const choice = { message: { role: 'assistant', content: 'ok' }, finish_reason: null }
    expect((await ask([{ choices: [choice] }])).outcome).toMatchObject({ finishReason: null })
  })

  it.each<[string, LoopTrainerAnswer]>([
    ['without choices', {}],
    ['with empty choices', { choices: [] }],
    ['without a message', { choices: [{}] }],
    ['that is not JSON', (response) => void response.end('<html>')],
    ['with a status but no body', (response) => void response.writeHead(204).end()],
    [
      'that is not UTF-8',
      (response) =>
        void response.end(
          Buffer.from('{"choices":[{"message":{"content":"caf\u00e9"}}]}', 'latin1'),
        ),
    ],
    [
      'of more than 64 MiB',
      (response) => {
        response.write(Buffer.alloc(64 * 1024 * 1024, ' '))
        response.end(JSON.stringify({ choices: [{ message: { content: 'ok' } }] }))
      },
    ],
  ])('%s is an error that names the problem, and is not retried', async (_, answer) => {
    const { outcome, trainer, body } = await ask([answer])
    expect(outcome).toMatchObject({ name: 'OsmosisValidationError', code: 'policy_stream_error' })
    expect(trainer.chats).toHaveLength(1)
    expect(body?.['metrics']).toEqual(metrics())
  })
})

describe('a model call that fails', () => {
  it.each<[string, LoopTrainerAnswer, object]>([
    ['400', 400, { name: 'OsmosisValidationError', status: 400 }],
    ['404', 404, { name: 'OsmosisValidationError', status: 404 }],
    ['302', 302, { name: 'OsmosisValidationError', status: 302 }],
    [
      'an answer that breaks off',
      (response) => {
        response.writeHead(200, { 'content-length': '100' })
        response.write('{', () => response.socket?.destroy())
      },
      { name: 'OsmosisTransportError', code: 'policy_unreachable' },
    ],
  ])('with %s is not made again', async (_, answer, expected) => {
    const { outcome, trainer } = await ask([answer])
    expect(outcome).toMatchObject(expected)
    expect([isOsmosisError(outcome), outcome instanceof OsmosisRolloutError]).toStrictEqual([
      true,
      true,
    ])
    expect(trainer.chats).toHaveLength(1)
  })

  it.each<[string, LoopTrainerAnswer]>([
    ['500', 500],
    ['429', 429],
    ['408', 408],
    ['a reset', reset],
  ])('with %s is made again', async (_, answer) => {
    const { outcome, trainer } = await ask([answer, answer])
    expect(outcome).toMatchObject({ content: 'ok' })
    expect(new Set(trainer.chats.map(({ raw }) => raw)).size).toBe(1)
    expect(trainer.chats).toHaveLength(3)
  })

  it.each<[string, LoopTrainerAnswer, object]>([
    ['500', 500, { name: 'OsmosisServerError', code: 'policy_http_error', status: 500 }],
    ['a reset', reset, { name: 'OsmosisTransportError', code: 'policy_unreachable' }],
  ])(
    'with %s more often than it is retried rejects with that error',
    async (_, answer, expected) => {
      const { outcome, trainer } = await ask(
        [answer, answer, answer, answer],
        {},
        {
          settings: { client: { maxRetries: 2 } },
        },
      )
      expect(outcome).toMatchObject(expected)
      expect(trainer.chats).toHaveLength(3)
    },
  )

  it('is retried after the time limit, and finally reports the limit', async () => {
    const { outcome, trainer } = await ask(
      [hang, hang],
      {},
      {
        settings: { client: { maxRetries: 1, timeoutSeconds: 1 } },
      },
    )
    expect(outcome).toMatchObject({
      name: 'OsmosisTimeoutError',
      code: 'timeout',
      message: expect.stringMatching(
        /^The trainer at http:\S+\/v1\/chat\/completions gave no complete answer in 1 s\.$/,
      ),
    })
    expect(trainer.chats).toHaveLength(2)
  })

  it('is not made again when the time limit comes in the middle of its answer', async () => {
    const half: LoopTrainerAnswer = (response) => {
      response.writeHead(200, { 'content-length': '100' }).write('{')
    }
    const settings = { client: { timeoutSeconds: 1, maxRetries: 3 } }
    const { outcome, trainer } = await ask([half, half, half, half], {}, { settings })
    expect(outcome).toMatchObject({ name: 'OsmosisTimeoutError', code: 'timeout' })
    // On a busy machine an answer may begin too late, which is retried.
    expect(trainer.chats.length).toBeLessThan(4)
  })

  it('reports the answer of the trainer and what to do', async () => {
    const { outcome } = await ask([
      (response) => void response.writeHead(401).end('{"detail":"Who?"}'),
    ])
    expect((outcome as Error).message).toMatch(
      /^The policy endpoint answered 401: Who\? Check the api_key of the rollout request\. \(http:\S+\/v1\/chat\/completions\)$/,
    )
  })

  it('ends the rollout with its text when the loop does not catch it', async () => {
    await using running = await startApp({
      loop: loopOf(async (ctx) => {
        await ctx.chat(ctx.request.messages)
        return ctx.complete([])
      }),
    })
    running.trainer.chatAnswers.push(400)
    await running.init()
    expect(await running.trainer.results()).toMatchObject([
      {
        status: 'ERROR',
        final_messages: [{ role: 'user', content: 'hi' }],
        error_message: expect.stringMatching(/answered 400: no \(/),
      },
    ])
  })

  it('ends at once with the reason of the signal it was given', async () => {
    const abort = new AbortController()
    let outcome: unknown
    await using running = await startApp({
      loop: loopOf(async (ctx) => {
        outcome = await ctx.chat([], {}, { signal: abort.signal }).catch((error: unknown) => error)
        return ctx.complete([])
      }),
    })
    running.trainer.policy = () => hang
    await running.init()
    await running.trainer.until(() => running.trainer.chats.length === 1)
    abort.abort(new Error('enough'))
    await running.trainer.results()
    expect(outcome).toStrictEqual(new Error('enough'))
    await running.trainer.until(() => running.trainer.openChats === 0)
  })
})

describe('concurrent model calls', () => {
  it('are limited by the settings of one rollout, and close connections beyond the keep-alive limit', async () => {
    const messages = (n: number): PromptMessage[] => [{ role: 'user', content: String(n) }]
    await using running = await startApp({
      settings: { client: { maxConnections: 3, maxKeepaliveConnections: 1 } },
      loop: loopOf(async (ctx) => {
        await Promise.all(Array.from({ length: 6 }, async (_, n) => ctx.chat(messages(n))))
        return ctx.complete([])
      }),
    })
    let peak = 0
    running.trainer.policy = () => (response) => {
      peak = Math.max(peak, running.trainer.openChats)
      response.end(JSON.stringify(said('ok')))
    }
    await running.init()
    await running.trainer.results()
    expect(peak).toBeLessThanOrEqual(3)
    const reused = running.trainer.chats.filter(({ headers }) => headers.connection !== 'close')
    expect(reused.map(({ body }) => body['messages'])).toStrictEqual([messages(0)])
  })
})
