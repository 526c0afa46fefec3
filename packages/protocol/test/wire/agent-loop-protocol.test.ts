import {
  loopChatRequestSchema,
  loopCompletedSchema,
  loopInitRequestSchema,
  loopInitResponseSchema,
} from '@osmosis/protocol/wire'
import { describe, expect, it } from 'vitest'

const init = {
  rollout_id: 'r1',
  server_url: 'http://127.0.0.1:9/base',
  messages: [{ role: 'user', content: 'hi', unknown: null }],
  completion_params: { top_k: 5 },
}

describe('the body of POST /v1/rollout/init', () => {
  it('requires four keys, has defaults for the rest and ignores unknown keys', () => {
    expect(loopInitRequestSchema.parse({ ...init, unknown: 1 })).toEqual({
      ...init,
      max_turns: 10,
      max_tokens_total: 8192,
      metadata: {},
    })
  })

  it.each([
    ['7', 7],
    ['7.0', 7],
    [true, 1],
    [-1, -1],
  ])('accepts %j as a whole number', (max_turns, expected) => {
    expect(loopInitRequestSchema.parse({ ...init, max_turns }).max_turns).toBe(expected)
  })

  it.each([
    ['rollout_id', ' \t'],
    ['rollout_id', 'x'.repeat(257)],
    ['server_url', 'ftp://host'],
    ['server_url', 'http://user:pass@host'],
    ['server_url', 'http://host?x=1'],
    ['messages', ['hi']],
    ['completion_params', null],
    ['metadata', null],
    ['max_turns', 7.5],
  ])('refuses %s: %j', (key, value) => {
    expect(loopInitRequestSchema.safeParse({ ...init, [key]: value }).success).toBe(false)
  })
})

it('preserves every keyword of the schema of a tool', () => {
  const parameters = { type: 'object', properties: { a: { type: 'array', items: {} } } }
  const tools = [
    { type: 'function', function: { name: 'add', description: '', parameters, strict: false } },
  ]
  const answer = { rollout_id: 'r1', tools }
  expect(loopInitResponseSchema.parse(answer)).toEqual(answer)
})

it('preserves the parameters of a model call', () => {
  const call = { model: 'default', messages: [{ role: 'user' }], rollout_id: 'r1', seed: 3 }
  expect(loopChatRequestSchema.parse(call)).toEqual(call)
  expect(loopChatRequestSchema.safeParse({ ...call, messages: 'hi' }).success).toBe(false)
})

describe.each([
  ['messages', loopChatRequestSchema],
  ['final_messages', loopCompletedSchema],
])('%s', (key, schema) => {
  it.each([['hi'], [[1]], [[null]], [[[]]], [{}]])('cannot be %j', (value) => {
    const body = { rollout_id: 'r1', status: 'ERROR', [key]: value }
    expect(schema.safeParse(body).success).toBe(false)
  })

  it('report one issue, however many of them are wrong', () => {
    const body = { rollout_id: 'r1', status: 'ERROR', [key]: Array.from({ length: 1e5 }, () => 1) }
    expect(schema.safeParse(body).error?.issues).toMatchObject([
      { path: [key], message: 'must be a list of objects' },
    ])
  })
})

describe('the body of POST /v1/rollout/completed', () => {
  it('counts missing metrics as 0', () => {
    const completed = { rollout_id: 'r1', status: 'COMPLETED', final_messages: [], reward: 0 }
    expect(loopCompletedSchema.parse({ ...completed, metrics: { num_llm_calls: 2 } })).toEqual({
      ...completed,
      metrics: {
        total_latency_ms: 0,
        llm_latency_ms: 0,
        tool_latency_ms: 0,
        num_llm_calls: 2,
        num_tool_calls: 0,
        prompt_tokens: 0,
        response_tokens: 0,
        max_context_tokens: 0,
      },
      extra_fields: {},
    })
  })

  it.each([{ status: 'DONE' }, { final_messages: null }, { reward: 'high' }])(
    'refuses %j',
    (fault) => {
      const body = { rollout_id: 'r1', status: 'ERROR', final_messages: [], ...fault }
      expect(loopCompletedSchema.safeParse(body).success).toBe(false)
    },
  )
})
