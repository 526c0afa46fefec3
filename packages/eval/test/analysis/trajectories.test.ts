import {
  answeredCalls,
  isToolError,
  divergenceOf,
  type StepLike,
  type TrajectoryLike,
} from '@osmosis/eval/analysis'
import { type Trajectory, trajectorySchema } from '@osmosis/protocol/trajectory'
import { expect, test } from 'vitest'

import { toSummary, trajectoryFacts } from '../../src/analysis/trajectory/trajectory-facts.ts'

interface Said {
  readonly tool?: string
  readonly args?: Record<string, unknown>
  readonly result?: string
  readonly finish?: string
  readonly rewritten?: boolean
}

function agent(
  message: string,
  { tool, args = {}, result, finish, rewritten }: Said = {},
): StepLike {
  return {
    source: 'agent',
    message,
    metrics: {
      extra: {
        finish_reason: finish ?? (tool === undefined ? 'stop' : 'tool_calls'),
        ...(rewritten ? { history_rewritten: true } : {}),
      },
    },
    ...(tool === undefined
      ? {}
      : {
          tool_calls: [{ tool_call_id: `${Math.random()}`, function_name: tool, arguments: args }],
        }),
    ...(result === undefined ? {} : { observation: { results: [{ content: result }] } }),
  }
}

/** Results name the call that they answer. */
function linked(steps: readonly StepLike[]): TrajectoryLike {
  return {
    steps: steps.map((step) => ({
      ...step,
      ...(step.observation
        ? {
            observation: {
              results: step.observation.results.map((result, at) => ({
                ...result,
                source_call_id: step.tool_calls?.[at]?.tool_call_id,
              })),
            },
          }
        : {}),
    })),
  }
}

const user: StepLike = { source: 'user', message: 'Add two bags.' }

test('the facts of a rollout are read from the documents of its samples', () => {
  const first = {
    ...linked([
      user,
      agent('', { tool: 'find', result: '{"id": 3}' }),
      agent('', { tool: 'update', result: 'Error: flights must be an array' }),
      agent('', { tool: 'update', result: '{"error": "no such flight"}', rewritten: true }),
      agent('I  could not\ndo it.', { finish: 'length' }),
    ]),
    final_metrics: { total_prompt_tokens: 400, total_completion_tokens: 60, total_cost_usd: 0.5 },
    extra: {
      osmosis: {
        sample_extra_fields: { limit_reached: 'totalTokens' },
        calls_without_step: [
          { started_at: '2026-11-20T09:00:00Z', extra: { finish_reason: 'stop' } },
          { started_at: '2026-11-20T09:00:00Z', error: 'aborted', extra: {} },
        ],
      },
    },
  }
  const second = {
    ...linked([user, agent('', { tool: 'find', result: 'Traceback (most recent call last)' })]),
    final_metrics: { total_prompt_tokens: 100 },
  }
  expect(trajectoryFacts([first, second])).toEqual({
    tokens: 560,
    prompt_tokens: 500,
    completion_tokens: 60,
    cost_usd: 0.5,
    calls: 6,
    tool_calls: 4,
    tool_errors: 3,
    finish: { tool_calls: 4, length: 1, stop: 1 },
    rewritten: 1,
    limit: 'totalTokens',
    tools: [
      { name: 'find', calls: 2, errors: 1 },
      { name: 'update', calls: 2, errors: 2 },
    ],
    summary: 'I could not do it.',
  })
  expect(trajectoryFacts([])).toMatchObject({ tokens: null, calls: 0, tools: [], summary: '' })
})

test('a call under other instructions is no rewritten history', () => {
  const call = { history_rewritten: true, history_rewritten_at: 0, instructions_changed: true }
  const step = { source: 'agent' as const, message: 'Done.', metrics: { extra: call } }
  expect(trajectoryFacts([{ steps: [user, step] }])).toMatchObject({ calls: 1, rewritten: 0 })
})

test('documents of core fit without conversion', () => {
  const document: Trajectory = trajectorySchema.parse({
    schema_version: 'ATIF-v1.7',
    agent: { name: 'osmosis-rollout-sdk', version: '0.0.0' },
    steps: [{ step_id: 1, source: 'user', message: [{ type: 'text', text: 'Hello' }] }],
  })
  expect(trajectoryFacts([document]).calls).toBe(0)
  expect(divergenceOf(document, document)).toEqual({ at: null, by: null, environment: null })
})

test.each([
  ['Error: no such file', true],
  ['error', true],
  ['  Traceback (most recent call last):', true],
  ['An error occurred while running the tool. Please try again.', true],
  ['{"error": "not found"}', true],
  [' {"error": {"code": 3}, "data": null}', true],
  ['{"error": null, "data": 3}', false],
  ['{"error": "", "data": 3}', false],
  ['{"error": false}', false],
  ['{"errors": 0}', false],
  ['{"error": broken', false],
  ['[{"error": "of one"}]', false],
  ['Errors were found in 0 files', false],
  ['No error', false],
  ['', false],
])('the result %j is an error of its tool: %s', (content, failed) => {
  expect(isToolError({ content })).toBe(failed)
  expect(isToolError({ content: [{ type: 'text', text: content }] })).toBe(failed)
})

test('a result that its framework flagged is an error whatever it says', () => {
  expect(isToolError({ content: 'all well', extra: { error: true } })).toBe(true)
  expect(isToolError({ content: null, extra: { is_error: true } })).toBe(true)
})

test('results that name no call belong to the calls without one', () => {
  const call = (id: string) => ({ tool_call_id: id, function_name: id, arguments: {} })
  const step: StepLike = {
    source: 'agent',
    message: '',
    tool_calls: [call('a'), call('b'), call('c'), call('d')],
    observation: {
      results: [
        { content: 'of a' },
        { content: 'of c', source_call_id: 'c' },
        { content: 'error' },
      ],
    },
  }
  const answered = answeredCalls(step)
  expect(answered.map(({ result }) => result?.content)).toEqual([
    'of a',
    'error',
    'of c',
    undefined,
  ])
  expect(answered.map(({ failed }) => failed)).toEqual([false, true, false, false])
})

test('calls of one id have the results of that id in their order', () => {
  const call = (name: string) => ({ tool_call_id: 'call_0', function_name: name, arguments: {} })
  const results = ['of a', 'of b'].map((content) => ({ content, source_call_id: 'call_0' }))
  const step: StepLike = {
    source: 'agent',
    message: '',
    tool_calls: [call('a'), call('b')],
    observation: { results },
  }
  expect(answeredCalls(step).map(({ result }) => result?.content)).toEqual(['of a', 'of b'])
})

test('a summary is one line of at most 160 characters, and never half a character', () => {
  expect(toSummary(' a\n\n b\t')).toBe('a b')
  expect(toSummary('x'.repeat(160))).toBe('x'.repeat(160))
  expect(toSummary('x'.repeat(161))).toBe(`${'x'.repeat(159)}…`)
  expect(toSummary('🙂'.repeat(500))).toBe(`${'🙂'.repeat(159)}…`)
  expect(toSummary('🙂'.repeat(160))).toBe('🙂'.repeat(160))
})

const shared = [user, agent('Looking.', { tool: 'find', args: { id: 3, day: 'may' }, result: '3' })]

test.each<[string, StepLike[], StepLike[], object]>([
  [
    'equal to the end, whatever the order of arguments and the ids of calls',
    shared,
    [user, agent('Looking.', { tool: 'find', args: { day: 'may', id: 3 }, result: '3' })],
    { at: null, by: null },
  ],
  [
    'another text',
    [...shared, agent('Done.')],
    [...shared, agent('Sorry.')],
    { at: 2, by: 'text' },
  ],
  [
    'another tool',
    [...shared, agent('', { tool: 'a' })],
    [...shared, agent('', { tool: 'b' })],
    { at: 2, by: 'tool' },
  ],
  [
    'other arguments',
    [...shared, agent('', { tool: 'a', args: { x: [1] } })],
    [...shared, agent('', { tool: 'a', args: { x: [2] } })],
    { at: 2, by: 'arguments' },
  ],
  [
    'a list is not an object',
    [...shared, agent('', { tool: 'a', args: { x: [1] } })],
    [...shared, agent('', { tool: 'a', args: { x: { 0: 1 } } })],
    { at: 2, by: 'arguments' },
  ],
  ['one ends', shared, [...shared, agent('Done.')], { at: 2, by: 'end' }],
  ['another speaker', [...shared, agent('x')], [...shared, user], { at: 2, by: 'source' }],
])('two attempts differ: %s', (_, left, right, divergence) => {
  expect(divergenceOf(linked(left), linked(right))).toEqual({ ...divergence, environment: null })
})

test('the first other result counts', () => {
  const of = (price: string, seats: string): TrajectoryLike =>
    linked([
      ...shared,
      agent('', { tool: 'price', result: price }),
      agent('', { tool: 'seats', result: seats }),
    ])
  expect(divergenceOf(of('$30', '4'), of('$31', '5'))).toEqual({
    at: null,
    by: null,
    environment: { at: 2, tool: 'price' },
  })
})

test('an equal call that got another result before is said: the environment differs', () => {
  const one = linked([...shared, agent('', { tool: 'price', result: '$30' }), agent('30 it is')])
  const other = linked([...shared, agent('', { tool: 'price', result: '$31' }), agent('31 it is')])
  expect(divergenceOf(one, other)).toEqual({
    at: 3,
    by: 'text',
    environment: { at: 2, tool: 'price' },
  })
})
