import { tool } from '@langchain/core/tools'
import { OsmosisChatModel } from '@osmosis/langchain'
import { type Reply, startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'

import { rolloutOn } from '../../../test/kit/index.ts'
import { add } from './rollout.ts'

/** The only request that `ask` makes inside a rollout, and what `ask` returns. */
async function exchange<T>(
  ask: () => Promise<T>,
  reply: Reply = 'done',
): Promise<{ body: Record<string, unknown>; result: T }> {
  await using server = await startPolicyServer([reply])
  const result = await rolloutOn(server).run(ask)
  expect(server.requests).toHaveLength(1)
  return { body: { ...server.requests[0]?.body }, result }
}

const wireAdd = {
  type: 'function',
  function: {
    name: 'add',
    description: 'Adds two numbers.',
    parameters: expect.objectContaining({ type: 'object', required: ['a', 'b'] }),
  },
}

test('the whole body of a call', async () => {
  const model = new OsmosisChatModel({ temperature: 1, maxTokens: 64 })
  const { body } = await exchange(async () => model.bindTools([add]).invoke('hello'))
  expect(body).toEqual({
    model: 'osmosis-rollout',
    stream: true,
    stream_options: { include_usage: true },
    temperature: 1,
    max_tokens: 64,
    messages: [{ role: 'user', content: 'hello' }],
    tools: [wireAdd],
  })
})

test('settings of the model are defaults, options of the call win', async () => {
  const model = new OsmosisChatModel({
    temperature: 1,
    topP: 0.9,
    topK: 40,
    frequencyPenalty: 0.1,
    presencePenalty: 0.2,
    maxTokens: 64,
    seed: 7,
    stopSequences: ['END'],
    logprobs: true,
    topLogprobs: 2,
    modelKwargs: { min_p: 0.05 },
  })
  const all = {
    temperature: 1,
    top_p: 0.9,
    top_k: 40,
    frequency_penalty: 0.1,
    presence_penalty: 0.2,
    max_tokens: 64,
    seed: 7,
    stop: ['END'],
    logprobs: true,
    top_logprobs: 2,
    min_p: 0.05,
  }
  expect((await exchange(async () => model.invoke('go'))).body).toMatchObject(all)
  const { body } = await exchange(async () =>
    model.invoke('go', { seed: 8, stop: ['STOP'], response_format: { type: 'json_object' } }),
  )
  expect(body).toMatchObject({
    ...all,
    seed: 8,
    stop: ['STOP'],
    response_format: { type: 'json_object' },
  })
})

test.each([
  ['any', 'required'],
  ['required', 'required'],
  ['auto', 'auto'],
  ['none', 'none'],
  ['add', { type: 'function', function: { name: 'add' } }],
  [
    { type: 'function', function: { name: 'add' } },
    { type: 'function', function: { name: 'add' } },
  ],
])('the tool choice %j is sent as %j', async (tool_choice, expected) => {
  const model = new OsmosisChatModel().bindTools([add], { tool_choice, parallel_tool_calls: false })
  const { body } = await exchange(async () => model.invoke('go'))
  expect(body).toMatchObject({ tool_choice: expected, parallel_tool_calls: false })
})

test('tools may have any form of LangChain, or that of chat completions', async () => {
  const parameters = { type: 'object' as const, properties: { a: { type: 'number' as const } } }
  const model = new OsmosisChatModel().bindTools(
    [
      add,
      tool(() => '', { name: 'json', description: 'By JSON schema.', schema: parameters }),
      { name: 'params', description: 'Without code.', schema: z.object({ a: z.number() }) },
      { type: 'function', function: { name: 'wire', parameters } },
    ],
    { strict: true },
  )
  const { body } = await exchange(async () => model.invoke('go'))
  const tools = body['tools'] as {
    function: { name: string; strict: boolean; parameters: object }
  }[]
  expect(tools.map(({ function: { name, strict } }) => [name, strict])).toEqual(
    ['add', 'json', 'params', 'wire'].map((name) => [name, true]),
  )
  for (const { function: called } of tools)
    expect(called.parameters).toMatchObject({ type: 'object' })
})

test.each([
  [{ type: 'web_search' }, '"web_search"'],
  [{ name: 'computer', type: 'computer_20250124' }, '"computer"'],
])('the tool %j is refused, because a provider would execute it', (hosted, name) => {
  expect(() => new OsmosisChatModel().bindTools([hosted])).toThrow(
    expect.objectContaining({ code: 'invalid_request', message: expect.stringContaining(name) }),
  )
})

const answer = z.object({ number: z.number() }).describe('An answer.')
const json = z.toJSONSchema(answer)

test.each([
  ['a schema of Zod', answer],
  ['a JSON schema', json],
])('a structured output by %s', async (_what, schema) => {
  const { body, result } = await exchange(
    async () =>
      new OsmosisChatModel().withStructuredOutput(schema, { name: 'answer' }).invoke('go'),
    '{ "number": 7.0 }',
  )
  expect(result).toEqual({ number: 7 })
  expect(body['response_format']).toMatchObject({
    type: 'json_schema',
    json_schema: {
      name: 'answer',
      description: 'An answer.',
      schema: { properties: { number: { type: 'number' } } },
    },
  })
})

test('a structured output by a tool call, or as any JSON', async () => {
  const model = new OsmosisChatModel()
  const called = await exchange(
    async () => model.withStructuredOutput(answer, { method: 'functionCalling' }).invoke('go'),
    { toolCalls: [{ name: 'extract', arguments: '{"number": 7}' }] },
  )
  expect(called.result).toEqual({ number: 7 })
  expect(called.body).toMatchObject({
    tools: [{ type: 'function', function: { name: 'extract' } }],
    tool_choice: { type: 'function', function: { name: 'extract' } },
  })

  const any = await exchange(
    async () => model.withStructuredOutput(answer, { method: 'jsonMode' }).invoke('go'),
    '{"number": 7}',
  )
  expect(any.result).toEqual({ number: 7 })
  expect(any.body).toMatchObject({ response_format: { type: 'json_object' } })
})

test('with includeRaw an output that does not match is null beside the message', async () => {
  const model = new OsmosisChatModel().withStructuredOutput(answer, { includeRaw: true })
  const { result } = await exchange(async () => model.invoke('go'), 'seven')
  expect(result).toMatchObject({ raw: { content: 'seven' }, parsed: null })
  const strict = new OsmosisChatModel().withStructuredOutput(answer)
  await exchange(async () => expect(strict.invoke('go')).rejects.toThrow(/seven/), 'seven')
})

test('a method that does not exist is refused', () => {
  expect(() => new OsmosisChatModel().withStructuredOutput(answer, { method: 'grammar' })).toThrow(
    expect.objectContaining({
      code: 'invalid_request',
      message:
        'The method of withStructuredOutput must be jsonSchema, jsonMode or functionCalling, got "grammar".',
    }),
  )
})
