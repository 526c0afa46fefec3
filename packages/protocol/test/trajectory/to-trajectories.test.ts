import { type PolicyCall, toRolloutSample } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { describe, expect, it } from 'vitest'

import {
  answer,
  conversation,
  documentOf,
  documentsOf,
  ended,
  sampleOf,
  samples,
  user,
} from './documents.ts'

const call = { id: 'c1', type: 'function', function: { name: 'multiply', arguments: '{"a": 6}' } }
const usage = { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 }

describe('the document of a sample', () => {
  it('has the messages, the cost of each call, and the outcome', async () => {
    const first = answer(
      { reasoning_content: 'Multiply.', tool_calls: [call] },
      {
        usage: { ...usage, prompt_tokens_details: { cached_tokens: 8 } },
        prompt_token_ids: [1, 2, 3],
      },
      {
        finish_reason: 'tool_calls',
        token_ids: [4, 5, 6],
        logprobs: { content: [-0.5, 0, -1].map((logprob) => ({ token: 'a', logprob })) },
      },
    )
    const sample = await conversation(
      [first, answer({ content: '42' }, { usage })],
      [[{ role: 'tool', tool_call_id: 'c1', content: '42' }]],
    )
    const graded = { ...sample, reward: 1, stepRewards: [0.5, null], metrics: { turns: 2 } }
    const document = documentOf(
      ended({
        label: '42',
        metadata: { level: 2 },
        extraFields: { row_index: 3, run_index: 0 },
        samples: samples(graded),
      }),
    )
    expect(document).toEqual({
      schema_version: 'ATIF-v1.7',
      session_id: 'r1',
      trajectory_id: 'r1',
      agent: {
        name: 'osmosis-rollout-sdk',
        version: expect.stringMatching(/^\d+\.\d+\.\d+/),
        model_name: 'policy-7',
      },
      steps: [
        { step_id: 1, source: 'user', message: 'q1' },
        {
          step_id: 2,
          timestamp: expect.any(String),
          source: 'agent',
          model_name: 'policy-7',
          message: '',
          reasoning_content: 'Multiply.',
          tool_calls: [{ tool_call_id: 'c1', function_name: 'multiply', arguments: { a: 6 } }],
          observation: { results: [{ source_call_id: 'c1', content: '42' }] },
          metrics: {
            prompt_tokens: 10,
            completion_tokens: 4,
            cached_tokens: 8,
            prompt_token_ids: [1, 2, 3],
            completion_token_ids: [4, 5, 6],
            logprobs: [-0.5, 0, -1],
            extra: {
              response_id: 'x',
              policy_version: 'policy-7',
              step_reward: 0.5,
              latency_ms: expect.any(Number),
              time_to_first_chunk_ms: expect.any(Number),
              attempts: 1,
              finish_reason: 'tool_calls',
              prompt_tokens_details: { cached_tokens: 8 },
            },
          },
          llm_call_count: 1,
        },
        {
          step_id: 3,
          timestamp: expect.any(String),
          source: 'agent',
          model_name: 'policy-7',
          message: '42',
          metrics: { prompt_tokens: 10, completion_tokens: 4, extra: expect.any(Object) },
          llm_call_count: 1,
        },
      ],
      final_metrics: {
        total_prompt_tokens: 20,
        total_completion_tokens: 8,
        total_cached_tokens: 8,
        total_steps: 3,
      },
      extra: {
        osmosis: {
          rollout_id: 'r1',
          sample_id: 'main',
          label: '42',
          reward: 1,
          sample_metrics: { turns: 2 },
          request_metadata: { level: 2 },
          request_extra_fields: { row_index: 3, run_index: 0 },
        },
      },
    })
  })

  it('lists calls that failed or whose answers are in another conversation, and counts their tokens', async () => {
    const sample = await conversation([
      { status: 400, error: { message: 'too long' } },
      answer({ content: 'a2' }, { usage }),
    ])
    const rewarded = { ...sample, stepRewards: [0.25] }
    const { steps, extra } = documentOf(ended({ samples: samples(rewarded) }))
    expect(steps.map(({ message }) => message)).toEqual(['q1', 'a2'])
    expect(steps[1]?.metrics?.extra).toMatchObject({ response_id: 'x', step_reward: 0.25 })
    expect(extra?.['osmosis']).toMatchObject({
      calls_without_step: [
        { error: expect.stringContaining('too long'), started_at: expect.any(String) },
      ],
    })
  })

  it('says of an answer whose token ids are not all of it that it is no training data', async () => {
    const said = (token_ids: number[]): Record<string, unknown> =>
      answer({ content: 'a' }, { usage, prompt_token_ids: [1] }, { token_ids })
    // The token that ends an answer may be counted and not listed.
    const sample = await conversation([said([4, 5, 6]), said([4, 5])], [[user('q2')]])
    const { steps } = documentOf(ended({ samples: samples(sample) }))
    const answers = steps.filter(({ source }) => source === 'agent')
    expect(answers.map(({ metrics }) => metrics?.extra?.['trainable'])).toEqual([undefined, false])
  })

  it('says from which message on a call rewrote the history', async () => {
    const sample = await conversation([answer({ content: 'a1' }, { usage })])
    const calls = sample.calls.map((one) => ({ ...one, extendsPrevious: false, rewrittenAt: 2 }))
    const { steps } = documentOf(ended({ samples: samples({ ...sample, calls }) }))
    expect(steps[1]?.metrics?.extra).toMatchObject({
      history_rewritten: true,
      history_rewritten_at: 2,
    })
  })

  it('has each answer below the instructions of its request', async () => {
    const said = [
      { role: 'assistant', content: 'a' },
      user('q2'),
      { role: 'assistant', content: 'b' },
    ]
    const [first] = (await conversation([answer({ content: 'a' }, { usage })])).calls
    const callOf = (answerIndex: number | null, own: Partial<PolicyCall>): PolicyCall => ({
      ...(first as PolicyCall),
      answerIndex,
      ...own,
    })
    const system = (content: string): ChatMessage => ({ role: 'system', content })
    const documentWith = (messages: ChatMessage[], calls: PolicyCall[]) =>
      documentOf(
        ended({ samples: samples({ ...sampleOf(), trajectoryMessages: messages, calls }) }),
      ).steps.map(({ source, message, extra, metrics }) => [
        source,
        message,
        extra?.['instructions_changed'] === true,
        extra?.['agent'],
        metrics?.prompt_tokens,
      ])
    const messages = [system('second'), user('q1'), ...said]
    const other = callOf(2, { instructions: [system('first')] })
    expect(documentWith(messages, [other, callOf(4, { agent: 'B' })])).toEqual([
      ['system', 'first', false, undefined, undefined],
      ['user', 'q1', false, undefined, undefined],
      ['agent', 'a', false, undefined, 10],
      ['user', 'q2', false, undefined, undefined],
      ['system', 'second', true, 'B', undefined],
      ['agent', 'b', false, undefined, 10],
    ])
    // The second agent has no instructions.
    expect(documentWith(messages.slice(1), [{ ...other, answerIndex: 1 }, callOf(3, {})])).toEqual([
      ['system', 'first', false, undefined, undefined],
      ['user', 'q1', false, undefined, undefined],
      ['agent', 'a', false, undefined, 10],
      ['user', 'q2', false, undefined, undefined],
      ['system', '', true, undefined, undefined],
      ['agent', 'b', false, undefined, 10],
    ])
    // The second agent was not answered.
    const failed = callOf(null, { error: 'refused', agent: 'B' })
    expect(documentWith(messages.slice(0, -1), [other, failed]).slice(2)).toEqual([
      ['agent', 'a', false, undefined, 10],
      ['user', 'q2', false, undefined, undefined],
      ['system', 'second', true, 'B', undefined],
    ])
  })

  it('has the framework’s own messages when the policy was not called', () => {
    const sample = sampleOf(user('q'), { role: 'assistant', content: 'by hand' }, 'a text', {
      odd: 1,
    })
    const { steps } = documentOf(ended({ samples: samples(sample) }))
    expect(steps).toEqual([
      { step_id: 1, source: 'user', message: 'q' },
      { step_id: 2, source: 'agent', message: 'by hand' },
      { step_id: 3, source: 'user', message: 'a text' },
      { step_id: 4, source: 'user', message: '{"odd":1}' },
    ])
  })

  it('shows the prompt and the failure of a rollout without samples', () => {
    const failure = { phase: 'workflow', category: 'timeout', message: 'too late' } as const
    const { steps, extra } = documentOf(ended({ failures: [failure] }))
    expect(steps).toEqual([{ step_id: 1, source: 'user', message: 'go' }])
    expect(extra?.['osmosis']).toEqual({ rollout_id: 'r1', failures: [failure] })
    expect(documentOf(ended({ initialMessages: [] })).steps).toHaveLength(1)
  })

  it('has its own id when the rollout has several samples', () => {
    const two = samples(
      toRolloutSample({ id: 'a', messages: [], label: 'own' }),
      toRolloutSample({ id: 'b', messages: [] }),
    )
    const documents = documentsOf(ended({ samples: two, label: 'of the row' }))
    expect(documents.map(({ session_id: session, trajectory_id: id }) => [session, id])).toEqual([
      ['r1', 'r1/a'],
      ['r1', 'r1/b'],
    ])
    expect(documents.map(({ extra }) => extra?.['osmosis'])).toMatchObject([
      { label: 'own' },
      { label: 'of the row' },
    ])
  })
})

describe('a message', () => {
  const stepsOf = (...messages: unknown[]): unknown[] =>
    documentOf(ended({ samples: samples(sampleOf(...messages)) })).steps

  it('stores fields that its role does not have in extra', () => {
    expect(
      stepsOf(
        { role: 'developer', content: 'Rules.' },
        { role: 'critic', content: 'No.' },
        { role: 'user', name: 'Ann', content: 'q', reasoning_content: 'hm', tool_calls: [call] },
        { role: 'assistant', content: null, refusal: 'I must not.' },
      ),
    ).toEqual([
      { step_id: 1, source: 'system', message: 'Rules.' },
      { step_id: 2, source: 'user', message: 'No.', extra: { original_role: 'critic' } },
      {
        step_id: 3,
        source: 'user',
        message: 'q',
        extra: { name: 'Ann', reasoning_content: 'hm', tool_calls: [call] },
      },
      { step_id: 4, source: 'agent', message: '', extra: { refusal: 'I must not.' } },
    ])
  })

  it('is text when it has only text parts, and JSON otherwise', () => {
    const image = { type: 'image_url', image_url: { url: 'data:,' } }
    const text = (value: string): object => ({ type: 'text', text: value })
    expect(
      stepsOf(
        { role: 'user', content: [text('a'), text('b')] },
        { role: 'user', content: [text('ä'), image] },
      ),
    ).toMatchObject([{ message: 'a\nb' }, { message: JSON.stringify([text('ä'), image]) }])
  })

  it('has images as parts instead of JSON, in messages and in results of tools', () => {
    const png = 'data:image/png;base64,iVBORw0KGgo='
    const jpeg = 'https://images.test/cat.jpg?size=2'
    const look = { type: 'text', text: 'Look:' }
    const part = (media_type: string, path: string): object => ({
      type: 'image',
      source: { media_type, path },
    })
    const steps = stepsOf(
      { role: 'user', content: [look, { type: 'image_url', image_url: { url: png } }] },
      { role: 'user', content: [{ type: 'image_url', image_url: jpeg }] },
      { role: 'user', content: [{ type: 'input_image', image: png }] },
      { role: 'assistant', content: null, tool_calls: [call] },
      {
        role: 'tool',
        tool_call_id: 'c',
        content: [{ type: 'image_url', image_url: { url: png } }],
      },
    )
    expect(steps).toMatchObject([
      { message: [look, part('image/png', png)] },
      { message: [part('image/jpeg', jpeg)] },
      { message: [part('image/png', png)] },
      { observation: { results: [{ content: [part('image/png', png)] }] } },
    ])
  })

  it('of a tool is in the step of the calls before it, and in its own step without calls', () => {
    const result = (id: string, content: string): object => ({
      role: 'tool',
      tool_call_id: id,
      content,
    })
    expect(
      stepsOf(
        { role: 'assistant', content: '', tool_calls: [call, { ...call, id: 'c2' }] },
        result('c2', 'two'),
        result('c1', 'one'),
        result('c9', 'unrequested'),
        user('q'),
        { role: 'function', name: 'multiply', content: 'alone' },
      ),
    ).toMatchObject([
      {
        source: 'agent',
        observation: {
          results: [
            { source_call_id: 'c2', content: 'two' },
            { source_call_id: 'c1', content: 'one' },
            { content: 'unrequested', extra: { tool_call_id: 'c9' } },
          ],
        },
      },
      { source: 'user' },
      {
        source: 'system',
        message: '',
        observation: { results: [{ content: 'alone' }] },
        extra: { original_role: 'function', name: 'multiply' },
      },
    ])
  })

  it.each<[unknown, unknown]>([
    ['{"a": 1}', { a: 1 }],
    [{ a: 1 }, { a: 1 }],
    ['', {}],
    [null, {}],
    ['{"a": 1', { _raw: '{"a": 1' }],
    ['[1]', { _raw: '[1]' }],
    ['{"id": 12345678901234567890}', { id: '12345678901234567890' }],
    [`{"a": ${'['.repeat(5000)}${']'.repeat(5000)}}`, { _raw: expect.any(String) }],
  ])('has tool arguments as an object, whatever the policy wrote: %j', (written, shown) => {
    const message = {
      role: 'assistant',
      tool_calls: [{ function: { name: 'f', arguments: written } }, 'no call', {}],
    }
    expect(stepsOf(message)).toMatchObject([
      {
        tool_calls: [
          { tool_call_id: 'call_0', function_name: 'f', arguments: shown },
          { tool_call_id: 'call_2', function_name: 'unknown', arguments: {} },
        ],
      },
    ])
  })
})
