import { isOsmosisError } from '@osmosis/core'
import { isFullContext } from '@osmosis/core/policy'
import { expect, it } from 'vitest'

import { rolloutOn, startPolicyEndpoint } from '../kit/index.ts'
import { llamaCpp, type PolicyTurn, writeAnswer } from '../kit/any-server/index.ts'
import { shapeOfAnswer } from '../llama-cpp/answer-shape.ts'
import type { RealRequest } from '../llama-cpp/real-exchanges.ts'
import { recording } from '../llama-cpp/recording.ts'
import { saidByServer } from '../llama-cpp/said-by-server.ts'

const { exchanges } = recording

const text = { text: 'Multiply 6 by 8', thinking: '', refusal: '', calls: [], isCut: true }
const written = '{"a": 6, "b": 8}'
const call = { ...text, text: '', calls: [{ name: 'multiply', written }], isCut: false }

it.each<[RealRequest, PolicyTurn, Partial<typeof llamaCpp>]>([
  ['a text', text, { form: 'json' }],
  ['a streamed text', text, {}],
  ['a tool call', call, { form: 'json', index: 'missing', noText: 'empty' }],
  ['a streamed tool call', call, {}],
])('our server writes %s in the shape of llama.cpp', (name, turn, form) => {
  const { contentType, parts } = writeAnswer(turn, { ...llamaCpp, ...form }, 0)
  const made = { status: 200, contentType, body: parts.join('') }
  expect(shapeOfAnswer(made)).toEqual(shapeOfAnswer(exchanges[name]))
})

/** What the policy client makes of recorded answers, byte for byte; the last one is repeated. */
async function replayed(...names: readonly [RealRequest, ...RealRequest[]]): Promise<unknown> {
  const endpoint = await startPolicyEndpoint((response, n) => {
    const { status, contentType, body } = exchanges[names[n - 1] ?? names.at(-1) ?? names[0]]
    response.writeHead(status, { 'content-type': contentType }).end(body)
  })
  const client = rolloutOn(endpoint).policy('main')
  return client.complete({ messages: [{ role: 'user', content: 'go' }] }, { retries: 0 })
}

it.each<RealRequest>([
  'a text',
  'a streamed text',
  'a tool call',
  'a streamed tool call',
  'a text with logprobs',
  'a streamed text with logprobs',
])('the policy client reads %s as the server of llama.cpp meant it', async (name) => {
  const said = saidByServer(exchanges[name])
  const completion = await replayed(name)
  expect(completion).toMatchObject({
    id: said.id,
    model: said.model,
    usage: said.usage,
    choices: [
      {
        finish_reason: said.finishReason,
        message: {
          role: 'assistant',
          content: said.content === '' ? null : said.content,
          ...(said.toolCalls.length === 0 ? {} : { tool_calls: said.toolCalls }),
        },
        ...(said.logprobs === undefined ? {} : { logprobs: { content: said.logprobs } }),
      },
    ],
  })
})

it.each<[RealRequest, number, string, boolean]>([
  ['a full context', 400, 'exceeds the available context size (2048 tokens)', true],
  ['a streamed full context', 400, 'exceeds the available context size (2048 tokens)', true],
  ['a wrong key', 401, 'Invalid API Key', false],
])(
  'the policy client says why the server of llama.cpp refused: %s',
  async (name, status, why, isFull) => {
    const refusal = await replayed(name).catch((error: unknown) => error)
    expect(isOsmosisError(refusal) && refusal.code).toBe('policy_http_error')
    expect(refusal).toMatchObject({ status, message: expect.stringContaining(why) })
    expect(isFullContext(refusal)).toBe(isFull)
  },
)

it('the policy client waits while the server of llama.cpp says that it loads its model', async () => {
  const loading = 'a model that is loading'
  const completion = await replayed(loading, loading, 'a text')
  expect(completion).toMatchObject({ id: saidByServer(exchanges['a text']).id })
})
