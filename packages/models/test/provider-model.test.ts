import { symlinkSync } from 'node:fs'
import path from 'node:path'

import type { ChatCompletion, ChatCompletionChunk, ChatMessage } from '@osmosis/core/policy'
import { providerModel, type ChatModel } from '@osmosis/models'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import {
  anthropicEvents,
  googleEvents,
  openaiEvents,
  ProviderStandIn,
  type ProviderAnswer,
} from '../../../test/kit/provider-stand-in.ts'

const folder = import.meta.dirname
const add = {
  type: 'function',
  function: {
    name: 'add',
    description: 'Adds.',
    parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
  },
}
const question: ChatMessage[] = [
  { role: 'system', content: 'Add.' },
  { role: 'user', content: '1 + 2?' },
]

async function standingIn(
  name: string,
  ...answers: ProviderAnswer[]
): Promise<{ peer: ProviderStandIn; model: ChatModel }> {
  return standingInOf(folder, name, ...answers)
}

/** With the packages that are installed in a folder. */
async function standingInOf(
  place: string,
  name: string,
  ...answers: ProviderAnswer[]
): Promise<{ peer: ProviderStandIn; model: ChatModel }> {
  const peer = await new ProviderStandIn().start()
  peer.answers.push(...answers)
  const baseUrl = `${peer.url}/v1`
  const model = await providerModel(name, { folder: place, apiKey: 'key-1', baseUrl })
  onTestFinished(async () => {
    await model.close?.()
    await peer[Symbol.asyncDispose]()
  })
  return { peer, model }
}

/** A model of a package of its own, whose stream begins so and then waits. */
async function streamingModel(start: string): Promise<ChatModel> {
  const stream = `new ReadableStream({
    start(controller) { ${start} },
    cancel() { globalThis.answerEnded() },
  })`
  const place = await temporaryFolder({
    'node_modules/@ai-sdk/openai/package.json': '{ "type": "module", "exports": "./index.js" }',
    'node_modules/@ai-sdk/openai/index.js': `export const createOpenAI = () => ({
      languageModel: () => ({ specificationVersion: 'v4', doStream: async () => ({ stream: ${stream} }) }),
    })`,
  })
  const model = await providerModel('openai/gpt-x', { folder: place, apiKey: 'key-1' })
  onTestFinished(async () => model.close?.())
  return model
}

async function complete(
  model: ChatModel,
  body: Record<string, unknown>,
): Promise<{ status: number; body: ChatCompletion }> {
  const response = await model.respond({ body, signal: new AbortController().signal })
  return { status: response.status, body: (await response.json()) as ChatCompletion }
}

async function streamed(
  model: ChatModel,
  body: Record<string, unknown>,
): Promise<{ chunks: ChatCompletionChunk[]; done: boolean }> {
  const asked = { ...body, stream: true, stream_options: { include_usage: true } }
  const response = await model.respond({ body: asked, signal: new AbortController().signal })
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'text/event-stream',
  ])
  const lines = (await response.text()).split('\n\n').filter((line) => line !== '')
  const data = lines.map((line) => line.replace(/^data: /, ''))
  const done = data.at(-1) === '[DONE]'
  return {
    chunks: (done ? data.slice(0, -1) : data).map(
      (text) => JSON.parse(text) as ChatCompletionChunk,
    ),
    done,
  }
}

const deltasOf = (chunks: readonly ChatCompletionChunk[]): unknown[] =>
  chunks.flatMap(({ choices }) => choices.map(({ delta, finish_reason }) => finish_reason ?? delta))

const usage = {
  prompt_tokens: 20,
  completion_tokens: 9,
  total_tokens: 29,
  prompt_tokens_details: { cached_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 3 },
}

describe('a model of OpenAI', () => {
  it('streams thinking, tool calls, finish reason and usage as chat completions chunks', async () => {
    const { peer, model } = await standingIn(
      'openai/gpt-x',
      openaiEvents({ arguments: '{"a": 1, "b":2}' }),
    )
    const { chunks, done } = await streamed(model, {
      messages: question,
      tools: [add],
      tool_choice: 'auto',
      max_tokens: 50,
    })

    expect(done).toBe(true)
    expect(deltasOf(chunks)).toEqual([
      { role: 'assistant', content: '' },
      { reasoning_content: 'Let me add.' },
      {
        tool_calls: [
          { index: 0, id: 'call_1', type: 'function', function: { name: 'add', arguments: '' } },
        ],
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"a": 1,' } }] },
      { tool_calls: [{ index: 0, function: { arguments: ' "b":2}' } }] },
      'tool_calls',
    ])
    expect(chunks.at(-1)?.usage).toEqual(usage)
    const [asked] = peer.requests
    expect([asked?.path, asked?.headers.authorization]).toEqual(['/v1/responses', 'Bearer key-1'])
    expect(asked?.body).toMatchObject({ model: 'gpt-x', max_output_tokens: 50, stream: true })
    expect(asked?.body['tools']).toMatchObject([{ type: 'function', name: 'add' }])
  })

  it('answers in one object when no stream is requested', async () => {
    const { model } = await standingIn('openai/gpt-x', openaiEvents({ text: 'It is 3.' }))
    const { body } = await complete(model, { messages: question })
    expect(body).toMatchObject({
      object: 'chat.completion',
      model: 'openai/gpt-x',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'It is 3.', reasoning_content: 'Let me add.' },
          finish_reason: 'stop',
        },
      ],
      usage: { total_tokens: 29 },
    })
  })
})

// The first release for ai 7, and the newest.
describe.each(['google-lowest', 'google'])('a model of Google, through %s', (installed) => {
  const google = async (
    ...answers: ProviderAnswer[]
  ): Promise<{ peer: ProviderStandIn; model: ChatModel }> =>
    standingInOf(await installedAs('google', installed), 'google/gemini-x', ...answers)

  it('streams thoughts, text, tool calls, finish reason and usage', async () => {
    const { peer, model } = await google(googleEvents({ text: 'I add.', args: { a: 1, b: 2 } }))
    const { chunks, done } = await streamed(model, {
      messages: question,
      tools: [add],
      max_tokens: 50,
    })
    expect(done).toBe(true)
    const [id] = chunks.flatMap(({ choices }) => choices[0]?.delta?.tool_calls?.[0]?.id ?? [])
    expect(deltasOf(chunks)).toEqual([
      { role: 'assistant', content: '' },
      { reasoning_content: 'Let me add.' },
      { content: 'I add.' },
      {
        tool_calls: [{ index: 0, id, type: 'function', function: { name: 'add', arguments: '' } }],
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"a":1,"b":2}' } }] },
      'tool_calls',
    ])
    expect(chunks.at(-1)?.usage).toEqual(usage)
    const [asked] = peer.requests
    expect([asked?.path, asked?.headers['x-goog-api-key']]).toEqual([
      '/v1/models/gemini-x:streamGenerateContent?alt=sse',
      'key-1',
    ])
    expect(asked?.body).toMatchObject({
      systemInstruction: { parts: [{ text: 'Add.' }] },
      contents: [{ role: 'user', parts: [{ text: '1 + 2?' }] }],
      generationConfig: { maxOutputTokens: 50 },
      tools: [{ functionDeclarations: [{ name: 'add' }] }],
    })
  })

  it('repeats the signature of a call with the tool result that follows it', async () => {
    const { peer, model } = await google(
      googleEvents({ text: 'I add.', args: { a: 1, b: 2 } }),
      googleEvents({ text: 'It is 3.' }),
    )
    const first = await complete(model, { messages: question, tools: [add] })
    const [call] = first.body.choices[0]?.message.tool_calls ?? []
    const { body } = await complete(model, {
      messages: [
        ...question,
        first.body.choices[0]?.message,
        { role: 'tool', tool_call_id: call?.id, content: '3' },
      ],
      tools: [add],
    })
    expect(body.choices[0]).toMatchObject({
      message: { content: 'It is 3.' },
      finish_reason: 'stop',
    })
    expect(peer.requests[1]?.body['contents']).toMatchObject([
      { role: 'user' },
      {
        role: 'model',
        parts: expect.arrayContaining([
          expect.objectContaining({
            functionCall: expect.objectContaining({ name: 'add', args: { a: 1, b: 2 } }),
            thoughtSignature: 'signed',
          }),
        ]),
      },
      { role: 'user', parts: [{ functionResponse: { name: 'add' } }] },
    ])
  })

  it('reports a truncated answer, and forwards a refusal', async () => {
    const { model } = await google(googleEvents({ text: 'It', finish: 'MAX_TOKENS' }), {
      status: 403,
      body: { error: { code: 403, message: 'API key not valid.', status: 'PERMISSION_DENIED' } },
    })
    const { body } = await complete(model, { messages: question, max_tokens: 1 })
    expect(body.choices[0]?.finish_reason).toBe('length')
    expect(await complete(model, { messages: question })).toMatchObject({
      status: 403,
      body: { error: { message: expect.stringContaining('API key not valid.') } },
    })
  })
})

/** A folder in which the package of a provider is installed, which this repository has under another name. */
async function installedAs(provider: string, installed: string): Promise<string> {
  const place = await temporaryFolder({ 'node_modules/@ai-sdk/none': '' })
  const from = path.join(folder, '../node_modules/@ai-sdk', installed)
  symlinkSync(from, path.join(place, 'node_modules/@ai-sdk', provider))
  return place
}

it('a tool call without a text has no content, and of two limits the newer name counts', async () => {
  const { peer, model } = await standingIn('openai/gpt-x', openaiEvents({ arguments: '{"a":1}' }))
  const limits = { max_tokens: 50, max_completion_tokens: 60 }
  const { body } = await complete(model, { messages: question, tools: [add], ...limits })
  expect(body.choices[0]?.message).toMatchObject({
    content: null,
    tool_calls: [{ id: 'call_1', function: { name: 'add', arguments: '{"a":1}' } }],
  })
  expect(peer.requests[0]?.body).toMatchObject({ max_output_tokens: 60 })
})

describe('a model of Anthropic', () => {
  it('repeats signed thinking with the tool results that follow it', async () => {
    const { peer, model } = await standingIn(
      'anthropic/claude-x',
      anthropicEvents({ text: 'I add.', arguments: '{"a":1,"b":2}' }),
      anthropicEvents({ text: 'It is 3.' }),
    )
    const { chunks } = await streamed(model, { messages: question, tools: [add], max_tokens: 50 })
    expect(deltasOf(chunks)).toEqual([
      { role: 'assistant', content: '' },
      { reasoning_content: 'Hmm, ' },
      { reasoning_content: 'sums.' },
      { content: 'I add.' },
      {
        tool_calls: [
          { index: 0, id: 'toolu_1', type: 'function', function: { name: 'add', arguments: '' } },
        ],
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] },
      { tool_calls: [{ index: 0, function: { arguments: ':1,"b":2}' } }] },
      'tool_calls',
    ])

    const call = {
      id: 'toolu_1',
      type: 'function' as const,
      function: { name: 'add', arguments: '{"a": 1, "b": 2}' },
    }
    const messages: ChatMessage[] = [
      ...question,
      { role: 'assistant', content: 'I add.', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'toolu_1', content: '3' },
    ]
    const { body } = await complete(model, { messages, tools: [add], max_tokens: 50 })
    expect(body.choices[0]?.message.content).toBe('It is 3.')
    expect(body.usage).toMatchObject({
      prompt_tokens: 20,
      completion_tokens: 7,
      prompt_tokens_details: { cached_tokens: 8 },
    })
    expect(peer.requests[0]?.headers['x-api-key']).toBe('key-1')
    const [, assistant, results] = (peer.requests[1]?.body['messages'] ?? []) as unknown[]
    expect(assistant).toMatchObject({
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Hmm, sums.', signature: 'signed' },
        { type: 'text', text: 'I add.' },
        { type: 'tool_use', id: 'toolu_1', name: 'add', input: { a: 1, b: 2 } },
      ],
    })
    expect(results).toMatchObject({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: '3' }],
    })
  })

  it.each([
    ['text', 'I multiply.', '{"a":1,"b":2}', { a: 1, b: 2 }],
    ['arguments', 'I add.', '{"a":1,"b":3}', { a: 1, b: 3 }],
    // Providers accept only an object.
    ['arguments, which are no object', 'I add.', '[1, 2]', {}],
  ])('is not given the thinking behind an answer with another %s', async (_, text, args, input) => {
    const { peer, model } = await standingIn(
      'anthropic/claude-x',
      anthropicEvents({ text: 'I add.', arguments: '{"a":1,"b":2}' }),
      anthropicEvents({ text: 'It is 3.' }),
    )
    await complete(model, { messages: question, tools: [add], max_tokens: 50 })
    const call = {
      id: 'toolu_1',
      type: 'function' as const,
      function: { name: 'add', arguments: args },
    }
    const messages: ChatMessage[] = [
      ...question,
      { role: 'assistant', content: text, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'toolu_1', content: '3' },
    ]
    await complete(model, { messages, tools: [add], max_tokens: 50 })
    const [, assistant] = (peer.requests[1]?.body['messages'] ?? []) as unknown[]
    expect(assistant).toEqual({
      role: 'assistant',
      content: [
        { type: 'text', text },
        { type: 'tool_use', id: 'toolu_1', name: 'add', input },
      ],
    })
  })

  it('reports a truncated answer', async () => {
    const { model } = await standingIn(
      'anthropic/claude-x',
      anthropicEvents({ text: 'It', stop: 'max_tokens' }),
    )
    const { body } = await complete(model, { messages: question, max_tokens: 1 })
    expect(body.choices[0]?.finish_reason).toBe('length')
  })

  it('sends images, results of parallel calls and the history of another model', async () => {
    const { peer, model } = await standingIn('anthropic/claude-x', anthropicEvents({ text: 'ok' }))
    const call = (id: string): NonNullable<ChatMessage['tool_calls']>[number] => ({
      id,
      type: 'function',
      function: { name: 'add', arguments: 'not json' },
    })
    const image = { url: 'data:image/png;base64,aGk=' }
    const { status } = await complete(model, {
      max_tokens: 5,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'what?' },
            { type: 'image_url', image_url: image },
          ],
        },
        { role: 'assistant', content: null, tool_calls: [call('a'), call('b')] },
        { role: 'tool', tool_call_id: 'a', content: '1' },
        { role: 'tool', tool_call_id: 'b', content: '2' },
      ],
    })
    expect(status).toBe(200)
    expect(peer.requests[0]?.body['messages']).toMatchObject([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'what?' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { id: 'a', input: {} },
          { id: 'b', input: {} },
        ],
      },
      { role: 'user', content: [{ tool_use_id: 'a' }, { tool_use_id: 'b' }] },
    ])
  })
})

describe('what goes wrong', () => {
  it.each([
    ['openai/gpt-x', { error: { message: 'Incorrect API key', type: 'invalid_request_error' } }],
    ['anthropic/claude-x', { type: 'error', error: { type: 'x', message: 'Incorrect API key' } }],
  ])('is the status and the message of the provider: %s', async (name, body) => {
    const { model, peer } = await standingIn(name, { status: 401, body })
    const refused = await complete(model, { messages: question, max_tokens: 5 })
    expect([refused.status, refused.body]).toEqual([
      401,
      {
        error: {
          message: `${name}: Incorrect API key`,
          type: 'invalid_request_error',
          code: 'provider_refused',
        },
      },
    ])
    expect(peer.requests.length).toBe(1)
  })

  it('forwards the retry delay of the provider', async () => {
    const { model } = await standingIn('openai/gpt-x', {
      status: 429,
      body: { error: { message: 'slow down' } },
      headers: { 'retry-after-ms': '700' },
    })
    const response = await model.respond({
      body: { messages: question },
      signal: new AbortController().signal,
    })
    expect([response.status, response.headers.get('retry-after-ms')]).toEqual([429, '700'])
  })

  it('ends a stream without [DONE] when the answer breaks off', async () => {
    const { model } = await standingIn(
      'anthropic/claude-x',
      anthropicEvents({ text: 'It is' }).slice(0, -2),
    )
    const { chunks, done } = await streamed(model, { messages: question, max_tokens: 5 })
    expect(done).toBe(false)
    expect(chunks.at(-1)).toMatchObject({ error: { code: 'policy_stream_error' } })
  })

  it('is an error of the provider, also one that is no value', async () => {
    const model = await streamingModel(`controller.enqueue({ type: 'error', error: null })`)
    const failed = await complete(model, { messages: question })
    expect([failed.status, failed.body]).toMatchObject([
      502,
      { error: { code: 'provider_failed' } },
    ])
  })

  it('ends the answer of the provider when nobody reads it any more', async () => {
    const ended = Promise.withResolvers<void>()
    vi.stubGlobal('answerEnded', ended.resolve)
    onTestFinished(() => void vi.unstubAllGlobals())
    const model = await streamingModel(`for (let at = 0; at < 9; at += 1)
      controller.enqueue({ type: 'text-delta', id: '1', delta: 'word ' })`)
    const { body } = await model.respond({
      body: { messages: question, stream: true },
      signal: new AbortController().signal,
    })
    const reader = body?.getReader()
    await reader?.read()
    await reader?.cancel()
    await expect(ended.promise).resolves.toBeUndefined()
  })

  it('is 502 with policy_unreachable when nothing listens', async () => {
    const { model, peer } = await standingIn('openai/gpt-x')
    await peer[Symbol.asyncDispose]()
    const gone = await complete(model, { messages: question })
    expect([gone.status, gone.body]).toMatchObject([502, { error: { code: 'policy_unreachable' } }])
  }, 10_000)

  it.each([
    ['two answers at once', { n: 2 }, 'n (2)'],
    ['parameters it has no form for', { logit_bias: { 5: 1 } }, 'logit_bias ({"5":1})'],
    [
      'audio',
      { messages: [{ role: 'user', content: [{ type: 'input_audio' }] }] },
      'content parts of type "input_audio"',
    ],
    [
      'an image without a URL',
      {
        messages: [
          { role: 'user', content: [{ type: 'image_url', image_url: { url: 'cat.png' } }] },
        ],
      },
      'an image whose address is not a URL ("cat.png")',
    ],
    [
      'calls of other forms',
      {
        messages: [
          {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'f', input: 'x' } }],
          },
        ],
      },
      'tool calls of type "custom"',
    ],
  ])('refuses %s without calling the provider', async (_what, body, named) => {
    const { model, peer } = await standingIn('openai/gpt-x')
    const refused = await complete(model, { messages: question, ...body })
    expect([refused.status, refused.body]).toMatchObject([
      400,
      {
        error: {
          code: 'unsupported_request',
          message: `This cannot be put to openai/gpt-x through the AI SDK: ${named}.`,
        },
      },
    ])
    expect(peer.requests).toEqual([])
  })

  it('rejects with the reason of the signal', async () => {
    const { model } = await standingIn('openai/gpt-x')
    const aborted = AbortSignal.abort(new Error('enough'))
    await expect(model.respond({ body: { messages: question }, signal: aborted })).rejects.toThrow(
      'enough',
    )
  })
})
