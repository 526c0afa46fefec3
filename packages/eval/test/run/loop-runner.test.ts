import type { LoopOrder, LoopOutcome } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import {
  loopRunner,
  runEvaluation,
  toScorer,
  type EvaluationOptions,
  type EvaluationResult,
  type LoopRunnerOptions,
} from '@osmosis/eval'
import { expect, it } from 'vitest'

import { datasetRows, names } from '../evaluations.ts'

const messages = [
  { role: 'user', content: '0 × 0' },
  { role: 'assistant', content: '0' },
]

function loopOutcome(init: Partial<LoopOutcome> = {}): LoopOutcome {
  return {
    rolloutId: 'r',
    status: 'success',
    finalMessages: messages,
    finishReason: 'stop',
    reward: 1,
    errorMessage: null,
    metrics: null,
    policyCalls: 1,
    usage: { promptTokens: 10, completionTokens: 5, totalTokens: 15 },
    durationMs: 12.5,
    ...init,
  }
}

/** Evaluates a loop whose rollouts end as `answer` says. */
async function evaluateLoop(
  answer: (order: LoopOrder) => LoopOutcome,
  options: Partial<EvaluationOptions> = {},
  loop: LoopRunnerOptions = {},
): Promise<EvaluationResult> {
  const runner = loopRunner({ run: async (order) => answer(order) }, loop)
  return runEvaluation({
    names,
    rows: datasetRows(1),
    model: { name: 'scripted', runner },
    ...options,
  })
}

it('sends the row as metadata, which cannot pass for the evaluation itself', async () => {
  const orders: LoopOrder[] = []
  const [row] = datasetRows(1)
  if (row === undefined) throw new Error('no row')
  const metadata = { level: 3, source: 'metadata', execution_mode: 'production', row_index: 9 }
  await evaluateLoop(
    (order) => {
      orders.push(order)
      return loopOutcome()
    },
    {
      rows: [
        { ...row, sourceRowIndex: 7, metadata, otherColumns: { source: 'column', topic: 't' } },
      ],
    },
    { maxTurns: 3, completionParams: { temperature: 0.5 }, timeoutSeconds: 20 },
  )
  expect(orders).toEqual([
    {
      rolloutId: expect.stringMatching(/^eval-7-run-0-[0-9a-f]{8}$/),
      messages: row.initialMessages,
      completionParams: { temperature: 0.5 },
      maxTurns: 3,
      metadata: {
        level: 3,
        source: 'metadata',
        topic: 't',
        ground_truth: '0',
        row_index: 7,
        execution_mode: 'eval',
      },
      timeoutMs: 20_000,
    },
  ])
})

it('gives a rollout an hour when nothing else is said', async () => {
  const deadlines: unknown[] = []
  await evaluateLoop(({ timeoutMs }) => {
    deadlines.push(timeoutMs)
    return loopOutcome()
  })
  expect(deadlines).toEqual([3_600_000])
})

it.each<[string, Partial<LoopOutcome>, object]>([
  ['a reward', {}, { status: 'success', reward: 1, error_type: null, error_message: null }],
  [
    'an error of the loop, which keeps its reward',
    { status: 'failure', errorMessage: 'too many turns' },
    { status: 'failed', reward: 1, error_type: 'agent_error', error_message: 'too many turns' },
  ],
  [
    'no result in time',
    { status: 'timeout', reward: null, errorMessage: 'no result within 20 s' },
    { status: 'failed', error_type: 'callback_timeout', error_message: 'no result within 20 s' },
  ],
  [
    'a cancellation by the server',
    { status: 'cancelled', reward: null, errorMessage: null },
    { status: 'failed', error_type: 'cancelled', error_message: 'the rollout was cancelled' },
  ],
  [
    'no reward',
    { reward: null },
    { error_type: 'missing_reward', error_message: 'the loop completed without a reward' },
  ],
  [
    'a rollout without a model call',
    { policyCalls: 0 },
    { status: 'success', tokens: null, calls: 0 },
  ],
])('counts %s', async (_name, outcome, record) => {
  const { items } = await evaluateLoop(() => loopOutcome(outcome))
  expect(items).toMatchObject([record])
})

it('needs no reward where eval functions score, and calls a turn of tools no answer', async () => {
  const solutions: string[] = []
  const scorer = toScorer('seen', ({ solutionStr }: { solutionStr: string }) =>
    solutions.push(solutionStr),
  )
  const tools = { role: 'assistant', content: null, tool_calls: [{}] }
  const { items } = await evaluateLoop(
    ({ rolloutId = '' }) =>
      loopOutcome({
        reward: null,
        finalMessages: rolloutId.startsWith('eval-0-run-0') ? messages : [...messages, tools],
      }),
    { scorers: [scorer], n: 2 },
  )
  expect(items.map(({ status }) => status)).toEqual(['success', 'success'])
  expect(solutions).toEqual(['0', ''])
})

it.each([
  [500, 'finished', ['no tools for this row', null]],
  [502, 'incomplete', []],
])(
  'takes a refusal with %i for what it means: the evaluation is %s',
  async (status, end, ended) => {
    let first = true
    const result = await evaluateLoop(
      () => {
        if (!first) return loopOutcome()
        first = false
        const cause = new Error('no tools for this row')
        throw new OsmosisError('protocol_error', `answered ${status}`, { status, cause })
      },
      { rows: datasetRows(2) },
    )
    const errors = result.items.map((item) => item.error_message)
    expect([result.status, errors]).toEqual([end, ended])
  },
)
