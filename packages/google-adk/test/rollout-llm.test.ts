import {
  FunctionTool,
  InMemoryRunner,
  LlmAgent,
  type LlmRequest,
  type LlmResponse,
} from '@google/adk'
import { OsmosisLlm, toNewMessage } from '@osmosis/google-adk'
import { fault, type Reply, startPolicyServer } from '@osmosis/testing'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { execute, messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'

type Contents = LlmRequest['contents']
type Config = NonNullable<LlmRequest['config']>

/** One call of the model: what it yields, and the only request. */
async function exchange(
  contents: Contents,
  config: Config = {},
  { reply = 'done', stream = false }: { reply?: Reply; stream?: boolean } = {},
) {
  await using server = await startPolicyServer([reply])
  const yielded: LlmResponse[] = []
  await rolloutOn(server).run(async () => {
    const request = { contents, config, liveConnectConfig: {}, toolsDict: {} }
    for await (const one of new OsmosisLlm('main').generateContentAsync(request, stream)) {
      yielded.push(one)
    }
  })
  return {
    yielded,
    body: { ...server.requests[0]?.body },
    messages: messagesOf(server.requests[0]),
  }
}

const go: Contents = [{ role: 'user', parts: [{ text: 'go' }] }]

test('contents of every kind reach the policy', async () => {
  const { messages } = await exchange(
    [
      {
        role: 'user',
        parts: [
          { text: 'see' },
          { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
          { fileData: { mimeType: 'image/png', fileUri: 'https://a.b/c.png' } },
          { inlineData: { mimeType: 'audio/mpeg', data: 'BBBB' } },
          { inlineData: { mimeType: 'application/pdf', data: 'CCCC', displayName: 'a.pdf' } },
        ],
      },
      {
        role: 'model',
        parts: [
          { text: 'Hm.', thought: true },
          { text: 'Both.' },
          { functionCall: { name: 'add', args: { a: 1 } } },
          { functionCall: { id: 'c2', name: 'add', args: { a: 2 } } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { name: 'add', response: { result: 'one' } } },
          { functionResponse: { id: 'c2', name: 'add', response: { sum: 2 } } },
          { text: 'go on' },
        ],
      },
    ],
    { systemInstruction: { parts: [{ text: 'Be exact.' }] } },
  )
  expect(messages).toEqual([
    { role: 'system', content: 'Be exact.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'see' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        { type: 'image_url', image_url: { url: 'https://a.b/c.png' } },
        { type: 'input_audio', input_audio: { data: 'BBBB', format: 'mp3' } },
        {
          type: 'file',
          file: { file_data: 'data:application/pdf;base64,CCCC', filename: 'a.pdf' },
        },
      ],
    },
    {
      role: 'assistant',
      content: 'Both.',
      reasoning_content: 'Hm.',
      tool_calls: [
        { id: 'call_1', type: 'function', function: { name: 'add', arguments: '{"a":1}' } },
        { id: 'c2', type: 'function', function: { name: 'add', arguments: '{"a":2}' } },
      ],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'one' },
    { role: 'tool', tool_call_id: 'c2', content: '{"sum":2}' },
    { role: 'user', content: 'go on' },
  ])
})

test('settings and tools reach the policy in chat completions form', async () => {
  const { body } = await exchange(go, {
    temperature: 1,
    topP: 0.9,
    topK: 40,
    maxOutputTokens: 64,
    stopSequences: ['END'],
    seed: 7,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    responseLogprobs: true,
    tools: [
      {
        functionDeclarations: [
          {
            name: 'add',
            description: 'Adds.',
            parameters: {
              type: 'OBJECT' as never,
              properties: {
                a: { type: 'NUMBER' as never, nullable: true },
                list: { type: 'ARRAY' as never, items: { type: 'STRING' as never }, minItems: '1' },
              },
              required: ['a'],
            },
          },
          { name: 'other', parametersJsonSchema: { type: 'object' } },
        ],
      },
    ],
    toolConfig: { functionCallingConfig: { mode: 'ANY' as never, allowedFunctionNames: ['add'] } },
  })
  expect(body).toMatchObject({
    temperature: 1,
    top_p: 0.9,
    top_k: 40,
    max_tokens: 64,
    stop: ['END'],
    seed: 7,
    presence_penalty: 0.1,
    frequency_penalty: 0.2,
    logprobs: true,
    tools: [
      {
        type: 'function',
        function: {
          name: 'add',
          description: 'Adds.',
          parameters: {
            type: 'object',
            properties: {
              a: { type: ['number', 'null'] },
              list: { type: 'array', items: { type: 'string' }, minItems: 1 },
            },
            required: ['a'],
          },
        },
      },
    ],
    tool_choice: { type: 'function', function: { name: 'add' } },
  })
})

test('a schema of the output is requested', async () => {
  const schema = { type: 'OBJECT' as never, properties: { n: { type: 'INTEGER' as never } } }
  const { body } = await exchange(go, { responseSchema: schema })
  expect(body['response_format']).toEqual({
    type: 'json_schema',
    json_schema: {
      name: 'response',
      schema: { type: 'object', properties: { n: { type: 'integer' } } },
    },
  })
  const any = await exchange(go, { responseMimeType: 'application/json' })
  expect(any.body['response_format']).toEqual({ type: 'json_object' })
})

test.each<[string, Contents, Config, string]>([
  ['code', [{ role: 'model', parts: [{ executableCode: { code: '1' } }] }], {}, 'executableCode'],
  [
    'files of a model',
    [{ role: 'model', parts: [{ inlineData: { data: 'A' } }] }],
    {},
    'inlineData',
  ],
  ['a tool of Google', go, { tools: [{ googleSearch: {} }] }, 'the tool googleSearch'],
  ['several answers', go, { candidateCount: 2 }, 'candidateCount'],
  ['sound', go, { responseModalities: ['AUDIO'] }, 'responseModalities'],
])('%s is refused before the policy is called', async (_what, contents, config, reason) => {
  await expect(exchange(contents, config)).rejects.toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining(reason),
  })
})

test('a live connection is refused', async () => {
  await expect(
    new OsmosisLlm().connect({ contents: [], liveConnectConfig: {}, toolsDict: {} }),
  ).rejects.toMatchObject({ code: 'invalid_request' })
})

test('an answer is a turn of Gemini, its pieces come first when they are wanted', async () => {
  const reply = {
    reasoning: 'Hm.',
    content: 'one two',
    toolCalls: [{ id: 'c1', name: 'add', arguments: '{"a": 1.0}' }],
    usage: { promptTokens: 5, completionTokens: 3 },
  }
  const { yielded } = await exchange(go, {}, { reply, stream: true })
  const whole = yielded.at(-1)
  expect(whole).toMatchObject({
    content: {
      role: 'model',
      parts: [
        { text: 'Hm.', thought: true },
        { text: 'one two' },
        { functionCall: { id: 'c1', name: 'add', args: { a: 1 } } },
      ],
    },
    finishReason: 'STOP',
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 3, totalTokenCount: 8 },
  })
  const partial = yielded.slice(0, -1)
  expect(partial.length).toBeGreaterThan(1)
  expect(partial.every((one) => one.partial)).toBe(true)
  const texts = partial.flatMap(({ content }) => content?.parts ?? [])
  expect(texts.map(({ text }) => text).join('')).toBe('Hm.one two')
  expect(await exchange(go, {}, { reply })).toMatchObject({ yielded: [whole] })
})

const add = new FunctionTool({
  name: 'add',
  description: 'Adds.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
})
const agent = new LlmAgent({ name: 'adder', model: new OsmosisLlm('main'), tools: [add] })

async function run(text: string, runner = new InMemoryRunner({ agent })): Promise<void> {
  const newMessage = toNewMessage([{ role: 'user', content: text }])
  for await (const _ of runner.runEphemeral({ userId: 'user', newMessage }));
}

test('an agent at the top of a file finds each of many rollouts', async () => {
  await using server = await startPolicyServer((request) => {
    const messages = messagesOf(request)
    const asked = messages.find(({ role }) => role === 'user')?.content as string
    return messages.some(({ role }) => role === 'tool')
      ? asked
      : { toolCalls: [{ name: 'add', arguments: '{"a": 1.0, "b": 2}' }] }
  })
  const rollouts = Array.from({ length: 20 }, (_, n) => rolloutOn(server, `rollout-${n}`))
  await Promise.all(
    rollouts.map(async (rollout) => rollout.run(async () => run(rollout.rolloutId))),
  )
  for (const rollout of rollouts) {
    const { trajectoryMessages, calls, messages } = await sampleOf(rollout)
    expect(trajectoryMessages?.at(-1)?.content).toBe(rollout.rolloutId)
    expect(calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, true])
    expect(messages.at(-1)).toEqual({ role: 'model', parts: [{ text: rollout.rolloutId }] })
  }
})

test('a tool may return an object with functions, which the policy does not see', async () => {
  const order = { state: 'sent', placed: new Date(0), cancel: () => {} }
  const look = new FunctionTool({
    name: 'look',
    description: 'Looks.',
    parameters: z.object({}),
    execute: () => order,
  })
  await using server = await startPolicyServer([
    { toolCalls: [{ id: 'c1', name: 'look', arguments: '{}' }] },
    'done',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const looking = new LlmAgent({ name: 'a', model: new OsmosisLlm('main'), tools: [look] })
    await run('go', new InMemoryRunner({ agent: looking }))
  })
  const seen = JSON.parse(JSON.stringify(order)) as object
  expect(messagesOf(server.requests[1]).at(-1)?.content).toBe(JSON.stringify(seen))
  expect((await sampleOf(rollout)).messages.at(-2)).toMatchObject({
    parts: [{ functionResponse: { name: 'look', response: seen } }],
  })
})

describe('errors', () => {
  test('of the policy are events of the ADK, and fail the rollout', async () => {
    await using server = await startPolicyServer(() => fault.status(400))
    const { workflow } = await execute(server, async () => run('go'))
    expect(workflow).toMatchObject({
      failure: { category: 'http_error', message: expect.stringContaining('answered 400') },
    })
  })
})

describe('toNewMessage', () => {
  test('has the texts and images of a prompt', () => {
    const url = 'https://a.b/c.png'
    expect(
      toNewMessage([
        { role: 'system', content: 'Be kind.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'see' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
            { type: 'image_url', image_url: { url } },
          ],
        },
      ]),
    ).toEqual({
      role: 'user',
      parts: [
        { text: 'Be kind.', partMetadata: { 'osmosis.role': 'system' } },
        { text: 'see' },
        { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
        { fileData: { fileUri: url, mimeType: 'image/*' } },
      ],
    })
  })

  test('keeps system messages of a row apart from those of the user', async () => {
    const prompt = [
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'hi' },
    ] as const
    expect((await exchange([toNewMessage(prompt)])).messages).toEqual(prompt)
  })

  test.each([
    ['system', { type: 'image_url', image_url: { url: 'https://a.b/c.png' } }],
    ['user', { type: 'input_audio' }],
    ['user', null],
  ])('refuses for %s messages the part %j', (role, part) => {
    expect(() => toNewMessage([{ role, content: [part] }])).toThrow(
      expect.objectContaining({ code: 'invalid_request', message: expect.stringContaining(role) }),
    )
  })

  test('refuses what only a session can have', () => {
    expect(() => toNewMessage([{ role: 'assistant', content: 'hi' }])).toThrow(
      expect.objectContaining({ code: 'invalid_request' }),
    )
  })
})
