import { styleText } from 'node:util'

import { computeMetrics, type EvaluationResult, formatReport, type ItemRecord } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { names } from '../evaluations.ts'

function record(rowIndex: number, runIndex: number, init: Partial<ItemRecord>): ItemRecord {
  return {
    rowIndex,
    sourceRowIndex: rowIndex,
    runIndex,
    rolloutId: 'r',
    status: 'success',
    reward: null,
    sampleRewards: {},
    usage: { promptTokens: 1000, completionTokens: 234, totalTokens: 1234 },
    durationMs: 1,
    errorType: null,
    errorMessage: null,
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
    metrics: computeMetrics(records, { nRuns: attempts, passThreshold: 1 }),
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
