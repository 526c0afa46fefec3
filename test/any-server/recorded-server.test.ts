import { isOsmosisError } from '@osmosis/core'
import { isFullContext } from '@osmosis/core/policy'
import { describe, expect, it } from 'vitest'

import {
  llamaCpp,
  type PolicyTurn,
  type ServerDialect,
  vllm,
  writeAnswer,
} from '../kit/any-server/index.ts'
import { rolloutOn, startPolicyEndpoint } from '../kit/index.ts'
import { shapeOfAnswer } from '../llama-cpp/answer-shape.ts'
import type { RealExchange } from '../llama-cpp/real-exchange.ts'
import { recording as llamaCppRecording } from '../llama-cpp/recording.ts'
import { saidByServer } from '../llama-cpp/said-by-server.ts'
import { vllmRecording } from '../vllm/recording.ts'

const text = { text: 'Multiply 6 by 8', thinking: '', refusal: '', calls: [], isCut: true }
const written = '{"a": 6, "b": 8}'
const call = { ...text, text: '', calls: [{ name: 'multiply', written }], isCut: false }
const json = { form: 'json', contentType: 'application/json' } as const

type ShapeCase = readonly [name: string, turn: PolicyTurn, form: Partial<ServerDialect>]
type RefusalCase = readonly [name: string, status: number, why: string, isFull: boolean]

/** Each server that was recorded: how our own server writes as it does, and what its refusals say. */
const servers: readonly {
  readonly server: string
  readonly dialect: ServerDialect
  readonly exchanges: Readonly<Record<string, RealExchange>>
  readonly shapes: readonly ShapeCase[]
  readonly refusals: readonly RefusalCase[]
}[] = [
  {
    server: 'llama.cpp',
    dialect: llamaCpp,
    exchanges: llamaCppRecording.exchanges,
    shapes: [
      ['a text', text, json],
      ['a streamed text', text, {}],
      ['a tool call', call, { ...json, index: 'missing', noText: 'empty' }],
      ['a streamed tool call', call, {}],
    ],
    refusals: [
      ['a full context', 400, 'exceeds the available context size (2048 tokens)', true],
      ['a streamed full context', 400, 'exceeds the available context size (2048 tokens)', true],
      ['a wrong key', 401, 'Invalid API Key', false],
    ],
  },
  {
    server: 'vLLM',
    dialect: vllm,
    exchanges: vllmRecording.exchanges,
    shapes: [
      ['a text', text, json],
      ['a streamed text', text, {}],
      ['a tool call', call, { ...json, index: 'missing', noText: 'null' }],
      ['a streamed tool call', call, { finish: 'last' }],
      ['a forced tool call', call, { ...json, index: 'missing' }],
    ],
    refusals: [
      ['a full context', 400, "This model's maximum context length is 1024 tokens", true],
      ['a streamed full context', 400, "This model's maximum context length is 1024 tokens", true],
      ['a wrong key', 401, 'Unauthorized', false],
      ['an unknown model', 404, 'The model `another` does not exist', false],
      ['a temperature above 2', 400, 'temperature must be in [0, 2], got 2.5', false],
    ],
  },
]

describe.each(servers)(
  'recorded answers of $server',
  ({ dialect, exchanges, shapes, refusals }) => {
    const exchangeOf = (name: string): RealExchange => {
      const exchange = exchanges[name]
      if (exchange === undefined) throw new Error(`${name} was not recorded`)
      return exchange
    }

    /** What the policy client makes of recorded answers, byte for byte; the last one is repeated. */
    async function replayed(...names: readonly string[]): Promise<unknown> {
      const endpoint = await startPolicyEndpoint((response, n) => {
        const { status, contentType, body } = exchangeOf(names[n - 1] ?? names.at(-1) ?? '')
        response.writeHead(status, { 'content-type': contentType }).end(body)
      })
      const client = rolloutOn(endpoint).policy('main')
      return client.complete({ messages: [{ role: 'user', content: 'go' }] }, { retries: 0 })
    }

    it.each(shapes)('our server writes %s in their shape', (name, turn, form) => {
      const { contentType, parts } = writeAnswer(turn, { ...dialect, ...form }, 0)
      const made = { status: 200, contentType, body: parts.join('') }
      expect(shapeOfAnswer(made)).toEqual(shapeOfAnswer(exchangeOf(name)))
    })

    const answered = Object.keys(exchanges).filter((name) => exchanges[name]?.status === 200)

    it.each(answered)('the policy client reads %s as the server meant it', async (name) => {
      const said = saidByServer(exchangeOf(name))
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
            ...(said.tokenIds === undefined ? {} : { token_ids: said.tokenIds }),
          },
        ],
        ...(said.promptTokenIds === undefined ? {} : { prompt_token_ids: said.promptTokenIds }),
      })
    })

    it.each(refusals)(
      'the policy client says why they refused: %s',
      async (name, status, why, isFull) => {
        const refusal = await replayed(name).catch((error: unknown) => error)
        expect(isOsmosisError(refusal) && refusal.code).toBe('policy_http_error')
        expect(refusal).toMatchObject({ status, message: expect.stringContaining(why) })
        expect(isFullContext(refusal)).toBe(isFull)
      },
    )
  },
)

it('the policy client waits while the server of llama.cpp says that it loads its model', async () => {
  const { exchanges } = llamaCppRecording
  const names = ['a model that is loading', 'a model that is loading', 'a text'] as const
  const endpoint = await startPolicyEndpoint((response, n) => {
    const { status, contentType, body } = exchanges[names[n - 1] ?? 'a text']
    response.writeHead(status, { 'content-type': contentType }).end(body)
  })
  const client = rolloutOn(endpoint).policy('main')
  const completion = await client.complete({ messages: [{ role: 'user', content: 'go' }] })
  expect(completion).toMatchObject({ id: saidByServer(exchanges['a text']).id })
})
