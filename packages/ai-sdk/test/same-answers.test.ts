import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { rolloutModel } from '@osmosis/ai-sdk'
import { fault, type Reply, startPolicyServer } from '@osmosis/testing'
import { generateText, type LanguageModel, streamText, tool, type ToolSet } from 'ai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'

import { rolloutOn } from '../../../test/kit/index.ts'

// Without execute: the loop ends with the call.
const tools: ToolSet = { add: tool({ inputSchema: z.looseObject({ a: z.number() }) }) }
const ask = { prompt: 'go', tools, maxRetries: 0 }

function events(finishReason: string, ...deltas: object[]): string {
  const chunks = [
    ...deltas.map((delta) => ({ index: 0, delta, finish_reason: null })),
    { index: 0, delta: {}, finish_reason: finishReason },
  ]
  const head = { id: 'answer-1', created: 1_700_000_000, model: 'the-policy' }
  const lines = chunks.map((choice) => JSON.stringify({ ...head, choices: [choice] }))
  return [...lines, '[DONE]'].map((line) => `data: ${line}\n\n`).join('')
}

const spoken: [what: string, said: Parameters<typeof fault.on>[0]][] = [
  ['a text', { content: 'Zoë says\n "hi" 😀.', usage: { promptTokens: 5, completionTokens: 3 } }],
  ['thinking and a text', { reasoning: 'Hm.\n', content: ' Hi.', finishReason: 'length' }],
  ['an empty text', { content: '' }],
  [
    'text, thinking and parallel calls',
    {
      reasoning: 'Hm.',
      content: 'Adding.',
      toolCalls: [
        { id: 'c1', name: 'add', arguments: '{ "a": 1.0, "b": [] }' },
        { id: 'c2', name: 'add', arguments: '{"a": "no number"}' },
        { id: 'c3', name: 'unknown', arguments: 'no JSON' },
      ],
    },
  ],
]

const answers: [what: string, reply: Reply][] = [
  ...spoken,
  [
    'a name that comes after the id and some arguments',
    fault.raw(
      events(
        'tool_calls',
        { tool_calls: [{ index: 0, id: 'c1', function: { arguments: '{"a"' } }] },
        { tool_calls: [{ index: 0, function: { name: 'add', arguments: ':1' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '}' } }] },
      ),
    ),
  ],
  [
    'calls whose pieces take turns',
    fault.raw(
      events(
        'tool_calls',
        { tool_calls: [{ index: 0, id: 'c1', function: { name: 'add', arguments: '{"a"' } }] },
        { tool_calls: [{ index: 1, id: 'c2', function: { name: 'add', arguments: '{"a":' } }] },
        { tool_calls: [{ index: 0, function: { arguments: ':1}' } }] },
        { tool_calls: [{ index: 1, function: { arguments: '2}' } }] },
      ),
    ),
  ],
  ['a refusal', fault.raw(events('content_filter', { refusal: 'I will ' }, { refusal: 'not.' }))],
]

/** A streamed answer as a program sees it. */
async function streamed(model: LanguageModel): Promise<object> {
  const result = streamText({ ...ask, model, onError: () => {} })
  const pieces: Record<string, string> = {}
  for await (const part of result.stream) {
    if (part.type === 'text-delta' || part.type === 'reasoning-delta') {
      pieces[part.type] = `${pieces[part.type] ?? ''}${part.text}|`
    }
    if (part.type === 'tool-input-start') pieces[part.id] = `${part.toolName}: `
    if (part.type === 'tool-input-delta') pieces[part.id] += `${part.delta}|`
    if (part.type === 'tool-input-end') pieces[part.id] += 'end'
  }
  const { id, modelId } = await result.response
  return {
    pieces,
    content: plain(await result.content),
    finishReason: await result.finishReason,
    usage: await result.totalUsage,
    response: { id, modelId },
  }
}

async function generated(model: LanguageModel): Promise<object> {
  const { content, finishReason, totalUsage, response } = await generateText({ ...ask, model })
  const { id, modelId } = response
  return {
    content: plain(content),
    finishReason,
    usage: totalUsage,
    response: { id, modelId },
  }
}

/** Without the metadata of the provider, where each has its own, and with errors as their texts. */
function plain(content: readonly object[]): unknown {
  return JSON.parse(
    JSON.stringify(content, (key, value: unknown) =>
      key === 'providerMetadata' ? undefined : value instanceof Error ? value.message : value,
    ),
  )
}

describe.each(answers)('%s', (_what, reply) => {
  test('is to streamText what it is from the provider of the SDK', async () => {
    await using server = await startPolicyServer([reply, reply])
    const theirs = await streamed(provider(server))
    const ours = await rolloutOn(server).run(async () => streamed(rolloutModel()))
    expect(ours).toEqual(theirs)
  })
})

test.each(spoken)(
  '%s is to generateText what it is from the provider of the SDK',
  async (_what, said) => {
    await using server = await startPolicyServer([fault.on(said, { json: true }), said])
    const theirs = await generated(provider(server))
    const ours = await rolloutOn(server).run(async () => generated(rolloutModel()))
    expect(ours).toEqual(theirs)
  },
)

function provider({ url: baseURL }: { url: string }): LanguageModel {
  const options = { name: 'osmosis', baseURL, includeUsage: true }
  return createOpenAICompatible(options)('osmosis-rollout')
}

test('raw chunks are returned on request', async () => {
  await using server = await startPolicyServer(['hi'])
  const raw: unknown[] = []
  await rolloutOn(server).run(async () => {
    const result = streamText({
      ...ask,
      model: rolloutModel(),
      includeRawChunks: true,
    })
    for await (const part of result.stream) if (part.type === 'raw') raw.push(part.rawValue)
  })
  expect(raw).toContainEqual(
    expect.objectContaining({
      choices: [expect.objectContaining({ delta: expect.objectContaining({ content: 'hi' }) })],
    }),
  )
})
