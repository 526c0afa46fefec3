import { validateTrajectory } from '@osmosis/protocol/trajectory'
import { describe, expect, it } from 'vitest'

/** A valid document, with these keys changed. */
function document(overrides: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    schema_version: 'ATIF-v1.7',
    session_id: 'r1',
    agent: { name: 'agent', version: '1' },
    steps: [
      { step_id: 1, source: 'user', message: [{ type: 'text', text: 'What is 6 × 7?' }] },
      {
        step_id: 2,
        timestamp: '2026-11-21T10:00:00.123+01:00',
        source: 'agent',
        message: '',
        tool_calls: [{ tool_call_id: 'c1', function_name: 'multiply', arguments: { a: 6, b: 7 } }],
        observation: { results: [{ source_call_id: 'c1', content: '42' }] },
        metrics: { prompt_tokens: 3, completion_token_ids: [1, 2], logprobs: [-0.5, 0] },
      },
    ],
    ...overrides,
  }
}

const step = (fields: Record<string, unknown>): unknown[] => [
  { step_id: 1, source: 'user', message: '', ...fields },
]
const agentStep = (fields: Record<string, unknown>): unknown[] =>
  step({ source: 'agent', ...fields })

describe('a document', () => {
  it('is valid when it follows all rules, with nulls for unknown values', () => {
    expect(validateTrajectory(document())).toEqual([])
    expect(validateTrajectory(document({ notes: null, extra: null }))).toEqual([])
    const inner = document({ trajectory_id: 'inner' })
    expect(validateTrajectory(document({ subagent_trajectories: [inner] }))).toEqual([])
  })

  it.each<[string, unknown, string | RegExp]>([
    ['something else', [], /^document: .*expected object/],
    ['another version', document({ schema_version: 'ATIF-v1.0' }), /^schema_version: /],
    ['a key of its own', document({ reward: 1 }), /^document: .*"reward"/],
    ['no steps', document({ steps: [] }), /^steps: /],
    ['an unknown key in a step', document({ steps: step({ role: 'x' }) }), /^steps\[0\]: .*"role"/],
    [
      'a gap between steps',
      document({ steps: step({ step_id: 2 }) }),
      /^steps\[0\]\.step_id: must be 1/,
    ],
    ['an unknown source', document({ steps: step({ source: 'tool' }) }), /^steps\[0\]\.source: /],
    [
      'an invalid time',
      document({ steps: step({ timestamp: 'noon' }) }),
      /^steps\[0\]\.timestamp: .*ISO 8601/,
    ],
    [
      'metrics in a step of the user',
      document({ steps: step({ metrics: {} }) }),
      'steps[0].metrics: belongs to steps of the agent, this one is of the user',
    ],
    [
      'reasoning without a call',
      document({ steps: agentStep({ llm_call_count: 0, reasoning_content: 'hm' }) }),
      'steps[0].reasoning_content: cannot be there when llm_call_count is 0',
    ],
    [
      'a result without a call',
      document({ steps: agentStep({ observation: { results: [{ source_call_id: 'c9' }] } }) }),
      'steps[0].observation.results[0].source_call_id: "c9" is not a tool call of this step',
    ],
    [
      'an empty reference',
      document({
        steps: agentStep({ observation: { results: [{ subagent_trajectory_ref: [{}] }] } }),
      }),
      'steps[0].observation.results[0].subagent_trajectory_ref[0]: needs a trajectory_id or a trajectory_path',
    ],
    [
      'infinite logprobs',
      document({ steps: agentStep({ metrics: { logprobs: [Number.NEGATIVE_INFINITY] } }) }),
      /^steps\[0\]\.metrics\.logprobs\[0\]: /,
    ],
    [
      'a fraction of a token',
      document({ steps: agentStep({ metrics: { prompt_token_ids: [0.5] } }) }),
      /^steps\[0\]\.metrics\.prompt_token_ids\[0\]: /,
    ],
    [
      'embedded documents without ids',
      document({ subagent_trajectories: [document()] }),
      'subagent_trajectories[0].trajectory_id: is required in an embedded trajectory',
    ],
    [
      'two embedded documents with the same id',
      document({
        subagent_trajectories: [document({ trajectory_id: 'a' }), document({ trajectory_id: 'a' })],
      }),
      'subagent_trajectories[1].trajectory_id: is used by two embedded trajectories',
    ],
    [
      'an invalid embedded document',
      document({
        subagent_trajectories: [document({ trajectory_id: 'a', steps: step({ step_id: 3 }) })],
      }),
      /^subagent_trajectories\[0\]\.steps\[0\]\.step_id: must be 1/,
    ],
  ])('is not valid with %s, and the problem names its path', (_, wrong, problem) => {
    const problems = validateTrajectory(wrong)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(problem)
  })
})
