import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { type Reply, startPolicyServer } from '@osmosis/testing'
import {
  defaultSettingsMiddleware,
  generateObject,
  generateText,
  Output,
  streamObject,
  streamText,
  wrapLanguageModel,
} from 'ai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { messagesOf, rolloutOn } from '../../../test/kit/index.ts'
import { tools } from './rollout.ts'

/** The only request that `ask` makes inside a rollout, and what `ask` returns. */
async function exchange<T>(
  ask: () => Promise<T>,
  reply: Reply = 'done',
): Promise<{ body: Record<string, unknown>; headers: Record<string, unknown>; result: T }> {
  await using server = await startPolicyServer([reply])
  const result = await rolloutOn(server).run(ask)
  expect(server.requests).toHaveLength(1)
  const [request] = server.requests
  return { body: { ...request?.body }, headers: { ...request?.headers }, result }
}

test('the whole body of a call', async () => {
  const model = rolloutModel({ temperature: 1, maxOutputTokens: 64 })
  const { body } = await exchange(async () =>
    generateText({ model, instructions: 'Be kind.', prompt: 'hello', tools }),
  )
  expect(body).toEqual({
    model: 'osmosis-rollout',
    stream: true,
    stream_options: { include_usage: true },
    temperature: 1,
    max_tokens: 64,
    messages: [
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'hello' },
    ],
    tools: [
      {
        type: 'function',
        function: {
          name: 'add',
          description: 'Adds two numbers.',
          parameters: expect.objectContaining({ type: 'object' }),
        },
      },
    ],
    tool_choice: 'auto',
  })
})

test('settings of the model are defaults, those of the call win', async () => {
  const model = rolloutModel({
    temperature: 1,
    topP: 0.9,
    topK: 40,
    frequencyPenalty: 0.1,
    presencePenalty: 0.2,
    maxOutputTokens: 64,
    seed: 7,
    stopSequences: ['END'],
    extraBody: { min_p: 0.05, top_logprobs: 2 },
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
    min_p: 0.05,
    top_logprobs: 2,
  }
  const plain = await exchange(async () => generateText({ model, prompt: 'hello' }))
  expect(plain.body).toMatchObject(all)
  expect(plain.result.warnings).toEqual([])

  const changed = await exchange(async () =>
    generateText({
      model,
      prompt: 'hello',
      temperature: 0,
      topK: 1,
      seed: 8,
      providerOptions: { osmosis: { min_p: 0.5 } },
    }),
  )
  expect(changed.body).toMatchObject({ ...all, temperature: 0, top_k: 1, seed: 8, min_p: 0.5 })
})

test('no header of a call replaces the identity of the rollout', async () => {
  const headers = {
    'x-sample-id': 'evil',
    'X-Rollout-Id': 'evil',
    Authorization: 'Bearer evil',
  }
  const { headers: sent } = await exchange(async () =>
    generateText({ model: rolloutModel('main'), prompt: 'hello', headers }),
  )
  expect(sent).toMatchObject({
    'x-sample-id': 'main',
    'x-rollout-id': 'rollout-1',
    authorization: 'Bearer key',
  })
})

test('the address of the policy may have a query', async () => {
  await using server = await startPolicyServer(['done'])
  const rollout = rolloutOn({ url: `${server.url}?token=1` })
  await rollout.run(async () => generateText({ model: rolloutModel(), prompt: 'hello' }))
  expect(server.requests[0]?.path).toBe('/v1/chat/completions?token=1')
})

test.each([
  ['an image', 'image/png', 'image_url'],
  ['an image of any kind', 'image', 'image_url'],
  ['a video', 'video/mp4', 'video_url'],
])('the address of %s goes to the policy and is not fetched', async (_what, mediaType, field) => {
  // Nothing listens here: fetching it would fail the call.
  const url = 'http://127.0.0.1:9/cat'
  const { body } = await exchange(async () =>
    generateText({
      model: rolloutModel(),
      messages: [{ role: 'user', content: [{ type: 'file', mediaType, data: new URL(url) }] }],
    }),
  )
  expect(body['messages']).toEqual([{ role: 'user', content: [{ type: field, [field]: { url } }] }])
})

describe('structured output', () => {
  const schema = z.object({ sum: z.number() })
  const asked = {
    type: 'json_schema',
    json_schema: { schema: { properties: { sum: { type: 'number' } } } },
  }

  test('of generateText and streamText sends its schema', async () => {
    const output = Output.object({ schema })
    const generated = await exchange(
      async () => generateText({ model: rolloutModel(), prompt: 'go', output }),
      '{"sum": 3}',
    )
    expect(generated.body['response_format']).toMatchObject(asked)
    expect(generated.result.output).toEqual({ sum: 3 })
    expect(generated.result.warnings).toEqual([])

    const streamed = await exchange(
      async () => streamText({ model: rolloutModel(), prompt: 'go', output }).output,
      '{"sum": 3}',
    )
    expect(streamed.body['response_format']).toMatchObject(asked)
    expect(streamed.result).toEqual({ sum: 3 })
  })

  test('of generateObject and streamObject sends its schema', async () => {
    const generated = await exchange(
      async () => generateObject({ model: rolloutModel(), prompt: 'go', schema }),
      '{"sum": 3}',
    )
    expect(generated.body['response_format']).toMatchObject(asked)
    expect(generated.result.object).toEqual({ sum: 3 })

    const streamed = await exchange(async () => {
      const result = streamObject({ model: rolloutModel(), prompt: 'go', schema })
      for await (const part of result.partialObjectStream) expect(part).toBeTypeOf('object')
      return result.object
    }, '{"sum": 3}')
    expect(streamed.body['response_format']).toMatchObject(asked)
    expect(streamed.result).toEqual({ sum: 3 })
  })
})

test.each(['generateText', 'streamText'])('logprobs are in the metadata of %s', async (how) => {
  const logprobs = [
    { token: 'do', logprob: -0.1, top_logprobs: [] },
    { token: 'ne', logprob: -0.2, top_logprobs: [] },
  ]
  const call = { model: rolloutModel({ extraBody: { logprobs: true } }), prompt: 'hello' }
  const { body, result } = await exchange(
    async () =>
      how === 'generateText'
        ? (await generateText(call)).providerMetadata
        : streamText(call).providerMetadata,
    { content: 'done', logprobs },
  )
  expect(body['logprobs']).toBe(true)
  expect(result?.['osmosis']).toMatchObject({ logprobs })
})

test('usage, finish reason, id and thinking are those of the policy', async () => {
  const { result } = await exchange(
    async () => generateText({ model: rolloutModel(), prompt: 'x' }),
    {
      content: 'Hi.',
      reasoning: 'Greet.',
      finishReason: 'length',
      usage: { promptTokens: 5, completionTokens: 3 },
    },
  )
  expect(result).toMatchObject({
    text: 'Hi.',
    reasoningText: 'Greet.',
    finishReason: 'length',
    usage: { inputTokens: 5, outputTokens: 3 },
    response: { modelId: 'osmosis-rollout', id: expect.any(String) },
  })
})

test('a wrapped model sends the requests of the middleware to the policy', async () => {
  const model = wrapLanguageModel({
    model: rolloutModel('main'),
    middleware: defaultSettingsMiddleware({ settings: { temperature: 0.5 } }),
  })
  const { body, headers } = await exchange(async () => generateText({ model, prompt: 'hello' }))
  expect(body['temperature']).toBe(0.5)
  expect(headers['x-sample-id']).toBe('main')
})

test('a step may use its own model, and so its own sample', async () => {
  await using server = await startPolicyServer([
    { toolCalls: [{ name: 'add', arguments: '{"a":1,"b":2}' }] },
    'done',
  ])
  await rolloutOn(server).run(async () => {
    const second = rolloutModel({ name: 'second', temperature: 0 })
    const agent = new OsmosisToolLoopAgent({
      id: 'first',
      model: rolloutModel({ temperature: 1 }),
      tools,
      prepareStep: ({ stepNumber }) => (stepNumber === 0 ? {} : { model: second }),
    })
    await agent.generate({ prompt: 'go' })
  })
  expect(
    server.requests.map(({ headers, body }) => [headers['x-sample-id'], body['temperature']]),
  ).toEqual([
    ['first', 1],
    ['second', 0],
  ])
  expect(messagesOf(server.requests[1])).toHaveLength(3)
})
