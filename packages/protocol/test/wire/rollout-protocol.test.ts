import {
  cancelRequestSchema,
  completionCallbackSchema,
  graderCallbackSchema,
  rolloutRequestSchema,
} from '@osmosis/protocol/wire'
import { describe, expect, it } from 'vitest'

const minimal = {
  initial_messages: [],
  chat_completions_url: 'http://127.0.0.1:9/v1',
  completion_callback_url: 'http://127.0.0.1:9/done',
}

describe('the body of POST /rollout', () => {
  it('requires three keys and ignores unknown ones', () => {
    expect(rolloutRequestSchema.parse({ ...minimal, unknown: 1 })).toEqual(minimal)
  })

  it('accepts null for every optional key', () => {
    const nulls = {
      rollout_id: null,
      label: null,
      metadata: null,
      controller_api_key: null,
      llm_api_key: null,
      grader_callback_url: null,
      agent_timeout_sec: null,
      grader_timeout_sec: null,
      extra_fields: null,
    }
    expect(rolloutRequestSchema.parse({ ...minimal, ...nulls })).toEqual({ ...minimal, ...nulls })
  })

  it.each([
    ['12', 12],
    [' 2.5 ', 2.5],
    ['-1e2', -100],
    [0, 0],
  ])('accepts the numeral %j as a number', (written, agent_timeout_sec) => {
    const body = { ...minimal, agent_timeout_sec: written, grader_timeout_sec: written }
    expect(rolloutRequestSchema.parse(body)).toEqual({
      ...minimal,
      agent_timeout_sec,
      grader_timeout_sec: agent_timeout_sec,
    })
  })

  it.each(['', 'soon', '12s', '0x10', '1e999', 'Infinity', true])(
    'refuses %j as a number',
    (agent_timeout_sec) => {
      expect(rolloutRequestSchema.safeParse({ ...minimal, agent_timeout_sec }).success).toBe(false)
    },
  )

  it('treats an empty grader URL as absent', () => {
    expect(rolloutRequestSchema.parse({ ...minimal, grader_callback_url: '' })).toEqual({
      ...minimal,
      grader_callback_url: null,
    })
  })

  it.each(['r1', 'rollout-xyz', 'abc_123', '5b6b0d5c-0d5e-4f7e-8f0a-1f6f0f0f0f0f', 'a b', '...'])(
    'accepts the rollout id %j',
    (rollout_id) => {
      expect(rolloutRequestSchema.parse({ ...minimal, rollout_id })).toMatchObject({ rollout_id })
    },
  )

  it.each([
    ['rollout_id', '../other'],
    ['rollout_id', 'a/b'],
    ['rollout_id', 'a\\b'],
    ['rollout_id', 'a\0b'],
    ['rollout_id', '..'],
    ['rollout_id', '.'],
    ['rollout_id', ''],
    ['rollout_id', 'größe'],
    ['rollout_id', 'x'.repeat(257)],
    ['initial_messages', 'hi'],
    ['initial_messages', ['hi']],
    ['initial_messages', undefined],
    ['label', 4],
    ['metadata', []],
    ['chat_completions_url', ''],
    ['chat_completions_url', null],
    ['chat_completions_url', 'ftp://x/v1'],
    ['chat_completions_url', 'http://user:pass@x/v1'],
    ['completion_callback_url', 'nonsense'],
    ['llm_api_key', ''],
    ['agent_timeout_sec', Number.POSITIVE_INFINITY],
    ['grader_timeout_sec', Number.NaN],
    ['extra_fields', 'x'],
    ['group', 'g'],
    ['group', { id: '', attempt: 1 }],
    ['group', { id: 'g' }],
    ['group', { id: 'g', attempt: 0 }],
    ['group', { id: 'g', attempt: 1, size: 1.5 }],
    ['group', { id: 'g', attempt: 1, size: 1e9 }],
  ])('refuses %s: %j and names the key', (key, value) => {
    const { error } = rolloutRequestSchema.safeParse({ ...minimal, [key]: value })
    expect(error?.issues.map((issue) => issue.path[0])).toEqual([key])
  })

  it.each([null, { id: 'g', attempt: 2, size: null }, { id: 'g', attempt: 2, size: 8 }])(
    'accepts the group %j',
    (group) => {
      expect(rolloutRequestSchema.parse({ ...minimal, group })).toMatchObject({ group })
    },
  )

  it('accepts timeouts that have already expired', () => {
    const body = { ...minimal, agent_timeout_sec: -1, grader_timeout_sec: 0 }
    expect(rolloutRequestSchema.parse(body)).toEqual(body)
  })
})

describe('the body of POST /rollout/cancel', () => {
  it.each([
    { ids: [] },
    { ids: ['a'] },
    { prefix: 'a' },
    { all: true },
    { ids: ['a'], prefix: null, all: false },
  ])('accepts %j', (body) => {
    expect(cancelRequestSchema.safeParse(body).success).toBe(true)
  })

  it.each([{}, { all: false }, { ids: ['a'], prefix: 'b' }, { prefix: 'a', all: true }])(
    'refuses %j, because it is not exactly one selector',
    (body) => {
      const { error } = cancelRequestSchema.safeParse(body)
      expect(error?.issues.map(({ message }) => message)).toEqual([
        'pass exactly one selector: ids, prefix, or all',
      ])
    },
  )

  it('refuses an empty prefix, which would select everything', () => {
    expect(cancelRequestSchema.safeParse({ prefix: '' }).success).toBe(false)
  })
})

describe('callbacks', () => {
  it('are read from servers of both callback generations', () => {
    const sample = { messages: [], reward: 1 }
    expect(graderCallbackSchema.parse({ status: 'success', sample })).toMatchObject({
      samples: {},
      sample: { messages: [], reward: 1, remove_sample: false, metrics: {}, extra_fields: {} },
    })
    expect(
      graderCallbackSchema.parse({ status: 'success', samples: { a: { id: 'a', ...sample } } })
        .samples,
    ).toMatchObject({ a: { id: 'a', reward: 1 } })
  })

  it('are refused with a status that is not terminal', () => {
    expect(completionCallbackSchema.safeParse({ status: 'pending' }).success).toBe(false)
    expect(graderCallbackSchema.safeParse({ status: 'running' }).success).toBe(false)
  })
})
