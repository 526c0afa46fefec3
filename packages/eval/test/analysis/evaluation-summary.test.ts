import { evaluationSummary } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'
import { expect, it } from 'vitest'

import { madeEvent } from '../../../../test/kit/index.ts'

function item(row: number, attempt: number, fields: Partial<ItemEvent> = {}): ItemEvent {
  const tokens = { tokens: 15, prompt_tokens: 10, completion_tokens: 5 }
  return madeEvent(row, attempt, { ...tokens, ...fields })
}

function failure(errorType: string, errorMessage: string): Partial<ItemEvent> {
  return { status: 'failed', reward: null, error_type: errorType, error_message: errorMessage }
}

/** One row whose attempts have these rewards. */
function rewards(...values: number[]): ItemEvent[] {
  return values.map((reward, runIndex) => item(0, runIndex, { reward }))
}

it('finds 0.5, 0.8333 and 1 for two rows with four attempts that pass in turn', () => {
  const items = [0, 1].flatMap((row) =>
    [0, 1, 0, 1].map((reward, run) => item(row, run, { reward })),
  )
  expect(evaluationSummary(items, { attempts: 4, passThreshold: 1 })).toEqual({
    total_samples: 8,
    completed_samples: 8,
    graded: 8,
    passed: 4,
    failed: 0,
    skipped: 0,
    pass_rate: 0.5,
    pass_threshold: 1,
    reward_stats: { mean: 0.5, median: 0.5, std: 0.5, min: 0, max: 1 },
    pass_at_k: [
      { k: 1, value: 0.5 },
      { k: 2, value: expect.closeTo(5 / 6, 10) },
      { k: 4, value: 1 },
    ],
    tokens_used: 120,
    prompt_tokens: 80,
    completion_tokens: 40,
    n_runs: 4,
    failures: [],
    without_model_calls: 0,
  })
})

it('is all zeros for no items', () => {
  const { n_runs, failures, ...others } = evaluationSummary([], { attempts: 2, passThreshold: 0 })
  expect([n_runs, failures]).toEqual([2, []])
  expect(new Set(Object.values(others))).toEqual(new Set([0]))
})

it('counts failures without a reward as not passed, and skipped items for their tokens only', () => {
  const summary = evaluationSummary(
    [
      item(0, 0),
      item(1, 0, failure('timeout', 'late')),
      item(2, 0, { status: 'skipped', reward: null }),
      item(3, 0, { ...failure('grader_failed', 'broken'), reward: 1 }),
    ],
    { attempts: 1, passThreshold: 1 },
  )
  expect(summary).toMatchObject({
    total_samples: 4,
    completed_samples: 3,
    failed: 2,
    skipped: 1,
    graded: 2,
    passed: 2,
    pass_rate: 2 / 3,
    tokens_used: 60,
  })
})

it('groups failures by type, the most frequent first, with the first message of each', () => {
  const summary = evaluationSummary(
    [
      item(0, 0, failure('timeout', 'late')),
      item(1, 0, failure('agent_error', 'first')),
      item(2, 0, failure('agent_error', 'second')),
    ],
    { attempts: 1, passThreshold: 1 },
  )
  expect(summary.failures).toEqual([
    { error_type: 'agent_error', count: 2, example: 'first' },
    { error_type: 'timeout', count: 1, example: 'late' },
  ])
})

it('counts successes that made no model call', () => {
  const items = [
    item(0, 0, { tokens: null, calls: 0 }),
    item(1, 0),
    item(2, 0, { ...failure('timeout', ''), tokens: null, calls: 0 }),
  ]
  expect(evaluationSummary(items, { attempts: 1, passThreshold: 1 }).without_model_calls).toBe(1)
})

it.each([
  [
    [4, 1, 2],
    { mean: 7 / 3, median: 2, std: expect.closeTo(Math.sqrt(14 / 9), 10), min: 1, max: 4 },
  ],
  [[10, 2, 4, 0], { mean: 4, median: 3, std: Math.sqrt(14), min: 0, max: 10 }],
])('describes the rewards %j', (values, expected) => {
  const { reward_stats: stats } = evaluationSummary(rewards(...values), {
    attempts: 4,
    passThreshold: 1,
  })
  expect(stats).toEqual(expected)
})

it('sums up every score on its own; an item without a score has not passed by it', () => {
  const items = [
    item(0, 0, { reward: null, scores: { exact: 1, close: 0.5 } }),
    item(0, 1, { reward: null, scores: { exact: 0 }, score_errors: { close: 'no' } }),
    item(1, 0, failure('timeout', 'late')),
  ]
  const names = { scoreNames: ['exact', 'close', 'never'] }
  const summary = evaluationSummary(items, { attempts: 2, passThreshold: 0.5, ...names })
  const none = { graded: 0, passed: 0, pass_rate: 0 }
  expect(summary).toMatchObject(none)
  expect(summary.scores).toMatchObject({
    exact: {
      graded: 2,
      passed: 1,
      pass_rate: 1 / 3,
      stats: { mean: 0.5, min: 0, max: 1 },
    },
    close: { graded: 1, passed: 1, pass_rate: 1 / 3, stats: { mean: 0.5, std: 0 } },
    never: none,
  })
})
