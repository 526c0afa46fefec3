import { styleText } from 'node:util'

import { computeMetrics, type EvaluationResult, formatReport, type ItemRecord } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { names } from '../evaluations.ts'

function record(rowIndex: number, runIndex: number, init: Partial<ItemRecord>): ItemRecord {
  return {
    rowIndex,
    sourceRowIndex: rowIndex,
    runIndex,
    model: 'primary',
    rolloutId: 'r',
    status: 'success',
    reward: null,
    sampleRewards: {},
    usage: { promptTokens: 1000, completionTokens: 234, totalTokens: 1234 },
    durationMs: 1,
    errorType: null,
    errorMessage: null,
    scores: {},
    scoreErrors: {},
    ...init,
  }
}

function resultOf(
  rowCount: number,
  attempts: number,
  records: ItemRecord[],
  init: Partial<EvaluationResult> = {},
): EvaluationResult {
  return {
    id: '0',
    names,
    status: 'finished',
    incompleteReason: null,
    startedAt: new Date(0),
    completedAt: new Date(0),
    durationMs: 12_340,
    rowCount,
    attempts,
    pending: rowCount * attempts - records.length,
    records,
    model: {
      tag: 'primary',
      name: 'policies/arithmetic.ts',
      metrics: computeMetrics(records, { nRuns: attempts, passThreshold: 1 }),
    },
    baseline: null,
    cost: null,
    location: '/home/me/.osmosis/evals/multiply-1',
    ...init,
  }
}

const failed = (errorType: string, errorMessage: string): Partial<ItemRecord> => ({
  status: 'failed',
  errorType,
  errorMessage,
})

const full = resultOf(2, 4, [
  record(0, 0, { reward: 1 }),
  record(0, 1, { reward: 0.25 }),
  record(0, 2, failed('timeout', 'workflow exceeded its 5s deadline')),
  record(0, 3, { reward: 1 }),
  record(1, 0, failed('agent_error', `the model said\n  ${'no '.repeat(40)}`)),
  record(1, 1, failed('agent_error', 'second')),
  record(1, 2, { reward: 1, usage: null }),
  record(1, 3, { status: 'skipped' }),
])

it('is a table of 80 columns', () => {
  const report = formatReport(full)
  expect(report).toMatchInlineSnapshot(`
    "Evaluation    multiply-1  finished
    ────────────────────────────────────────────────────────────────────────────────
    Rollout       multiply
    Dataset       data/multiply.jsonl
    Policy        policies/arithmetic.ts
    Items         2 rows × 4 attempts = 8  (1 skipped)

    Reward        0.813 ± 0.325  (median 1, min 0.25, max 1)
    Pass rate     42.9 %  (3 of 7 with a reward of 1 or more)
    Pass@1        41.7 %
    Pass@2        75.0 %
    Pass@4        100.0 %

    Tokens        8,638  (prompt 7,000, completion 1,638)
    Time          12.3 s  (0.65 rollouts/s)

    3 failures
      2 × agent_error  the model said no no no no no no no no no no no no no no no …
      1 × timeout      workflow exceeded its 5s deadline

    1 rollout succeeded without a model call: does the agent use the policy?

    Results       /home/me/.osmosis/evals/multiply-1"
  `)
  expect(Math.max(...report.split('\n').map((line) => line.length))).toBe(80)
})

it('says what is missing from an incomplete evaluation', () => {
  const incomplete = resultOf(20, 1, [], {
    status: 'incomplete',
    incompleteReason:
      'POST http://127.0.0.1:8000/rollout got no answer: connect ECONNREFUSED 127.0.0.1:8000. Is the rollout server running?',
    durationMs: 61_000,
    location: null,
  })
  expect(formatReport(incomplete)).toMatchInlineSnapshot(`
    "Evaluation    multiply-1  incomplete
    Stopped       POST http://127.0.0.1:8000/rollout got no answer: connect
                  ECONNREFUSED 127.0.0.1:8000. Is the rollout server running?
    ────────────────────────────────────────────────────────────────────────────────
    Rollout       multiply
    Dataset       data/multiply.jsonl
    Policy        policies/arithmetic.ts
    Items         20 rows × 1 attempt = 20  (0 done, 20 pending)

    Reward        none
    Pass rate     none

    Tokens        0  (prompt 0, completion 0)
    Time          1 min 01 s"
  `)
})

it('has the same words with colours', () => {
  const colourful = formatReport(full, {
    style: (format, text) => styleText(format, text, { validateStream: false }),
  })
  expect(colourful).toContain('\u001B[')
  // oxlint-disable-next-line no-control-regex
  expect(colourful.replaceAll(/\u001B\[\d+m/g, '')).toBe(formatReport(full))
})

it('shows no line feeds or terminal sequences of error messages', () => {
  const report = formatReport(
    resultOf(1, 1, [record(0, 0, failed('agent_error', 'a\n\u001B[31mb\u0007'))]),
  )
  expect(report).toContain('\n  1 × agent_error  a [31mb\n')
})

it.each([
  [840, '0.8 s  (1.19 rollouts/s)'],
  [245_000, '4 min 05 s  (0.00 rollouts/s)'],
  [7_380_000, '2 h 03 min  (0.00 rollouts/s)'],
])('shows the time of one rollout in %i ms as %s', (durationMs, text) => {
  const report = formatReport(resultOf(1, 1, [record(0, 0, { reward: 1 })], { durationMs }))
  expect(report).toContain(`Time          ${text}\n`)
})

it('shows scores and a baseline as tables', () => {
  const options = { nRuns: 2, passThreshold: 1, scoreNames: ['rewards.ts:exact', 'close'] }
  const scored = (exact: number, close: number): Partial<ItemRecord> => ({
    reward: exact,
    scores: { 'rewards.ts:exact': exact, close },
  })
  const primary = [record(0, 0, scored(1, 1)), record(0, 1, scored(0, 0.25))]
  const baseline = [
    record(0, 0, { ...scored(0, 0.5), durationMs: 1001 }),
    record(0, 1, failed('agent_error', 'boom')),
  ].map((item) => ({ ...item, model: 'baseline' as const }))
  const report = formatReport(
    resultOf(1, 2, [...primary, ...baseline], {
      pending: 0,
      model: { tag: 'primary', name: 'new', metrics: computeMetrics(primary, options) },
      baseline: { tag: 'baseline', name: 'old', metrics: computeMetrics(baseline, options) },
    }),
  )
  expect(report).toMatchInlineSnapshot(`
    "Evaluation    multiply-1  finished
    ────────────────────────────────────────────────────────────────────────────────
    Rollout       multiply
    Dataset       data/multiply.jsonl
    Policy        new against old
    Items         1 row × 2 attempts × 2 models = 4

    Score             Model              Mean ± std   Min  Max  Scored  Pass rate  Pass@1   Pass@2
    reward            new (primary)       0.5 ± 0.5     0    1  2 of 2     50.0 %  50.0 %  100.0 %
    reward            old (baseline)          0 ± 0     0    0  1 of 2      0.0 %   0.0 %    0.0 %
    rewards.ts:exact  new (primary)       0.5 ± 0.5     0    1  2 of 2     50.0 %  50.0 %  100.0 %
    rewards.ts:exact  old (baseline)          0 ± 0     0    0  1 of 2      0.0 %   0.0 %    0.0 %
    close             new (primary)   0.625 ± 0.375  0.25    1  2 of 2     50.0 %  50.0 %  100.0 %
    close             old (baseline)        0.5 ± 0   0.5  0.5  1 of 2      0.0 %   0.0 %    0.0 %

    Passed        with 1 or more

    Model           Items  Failed  Average time  Average tokens
    new (primary)       2       0          1 ms           1,234
    old (baseline)      2       1        501 ms           1,234

    Tokens        4,936  (prompt 4,000, completion 936)
    Time          12.3 s  (0.32 rollouts/s)

    1 failure (baseline)
      1 × agent_error  boom

    Results       /home/me/.osmosis/evals/multiply-1"
  `)
})

it('shows the table of one model when eval functions score it, the reward only where there is one', () => {
  const records = [record(0, 0, { scores: { exact: 1 } }), record(1, 0, {})]
  const options = { nRuns: 1, passThreshold: 0.5, scoreNames: ['exact', 'never'] }
  const report = formatReport(
    resultOf(2, 1, records, {
      model: { tag: 'primary', name: 'new', metrics: computeMetrics(records, options) },
    }),
  )
  expect(report.split('\n\n').slice(1, 3).join('\n\n')).toMatchInlineSnapshot(`
    "Score  Model  Mean ± std  Min  Max  Scored  Pass rate
    exact  new         1 ± 0    1    1  1 of 2     50.0 %
    never  new          none            0 of 2      0.0 %

    Passed        with 0.5 or more"
  `)
})
