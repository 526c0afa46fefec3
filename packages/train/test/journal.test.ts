import { readTrainingJournal } from '@osmosis/eval'
import type { SequenceCall } from '@osmosis/protocol/trajectory'
import {
  train,
  type BatchCounts,
  type EvaluationRecord,
  type StartRecord,
  type StepRecord,
  type TrainOptions,
  type TrainResult,
} from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRow, KnownLearner } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

async function trained(more: Partial<TrainOptions>): Promise<TrainResult> {
  return train({
    folder: await temporaryFolder(),
    learner: new KnownLearner({}),
    rollouts: quickRollouts(({ attempt }) => attempt),
    rows: [0, 1, 2].map(knownRow),
    steps: 1,
    attempts: 2,
    ...more,
  })
}

it('each start says what was done before, and all that is planned', async () => {
  const folder = await temporaryFolder()
  const options = {
    folder,
    rowsPerStep: 2,
    attempts: 3,
    warmStart: { steps: 2, threshold: 0 },
    names: { rollout: 'opens doors', dataset: 'doors' },
    rollouts: quickRollouts(({ attempt }) => attempt / 2),
  }
  await trained({ ...options, steps: 1 })
  await trained({ ...options, steps: 4, update: { kl: 0.5 } })
  const expected: Omit<StartRecord, 'step' | 'steps' | 'settings'> = {
    kind: 'start',
    model: 'known',
    rollout: 'opens doors',
    dataset: 'doors',
    rows: 3,
    rowsPerStep: 2,
    attempts: 3,
    startedAt: expect.stringMatching(/^\d{4}-.*Z$/),
  }
  const starts = readTrainingJournal(folder).filter(({ kind }) => kind === 'start')
  // The steps of the warm start count.
  expect(starts).toEqual([
    { ...expected, step: 0, steps: 3, settings: {} },
    { ...expected, step: 3, steps: 6, settings: { kl: 0.5 } },
  ])
  const ends = readTrainingJournal(folder).filter((record) => record.kind === 'end')
  expect(ends.map(({ step, reason }) => [step, reason])).toEqual([
    [3, 'All steps are done.'],
    [6, 'All steps are done.'],
  ])
})

it('what a caller hears is what the journal has, in its order', async () => {
  const folder = await temporaryFolder()
  const heard: (StepRecord | EvaluationRecord)[] = []
  const ended: Record<string, number> = {}
  const result = await trained({
    folder,
    steps: 4,
    heldOut: [knownRow(3), knownRow(4)],
    heldOutAttempts: 4,
    evaluateEvery: 2,
    onStep: (step) => void heard.push(step),
    onEvaluation: (evaluation) => void heard.push(evaluation),
    onProgress: (run, { done }) => void (ended[run] = done),
  })
  const records = readTrainingJournal(folder)
  const told = records.filter(({ kind }) => kind === 'step' || kind === 'evaluation')
  expect(heard).toEqual(told)
  expect(heard.map(({ run }) => run)).toEqual([
    'before',
    'step-0001',
    'step-0002',
    'after-step-0002',
    'step-0003',
    'step-0004',
    'after-step-0004',
  ])
  expect(ended).toEqual(
    Object.fromEntries(heard.map(({ kind, run }) => [run, kind === 'step' ? 6 : 8])),
  )
  expect(result.steps).toEqual(heard.filter(({ kind }) => kind === 'step'))
  expect(result.evaluations).toEqual(heard.filter(({ kind }) => kind === 'evaluation'))
})

/** Steps whose mean rewards are these. */
async function stepsWith(
  rewards: readonly number[],
  stopWhen: NonNullable<TrainOptions['stopWhen']>,
): Promise<readonly [steps: number, reason: string]> {
  const { steps, reason } = await trained({
    rows: [knownRow(0)],
    steps: rewards.length,
    stopWhen,
    rollouts: quickRollouts(
      ({ attempt, before }) => (rewards[before] ?? 0) + (attempt === 0 ? 0.125 : -0.125),
    ),
  })
  return [steps.length, reason]
}

it.each([
  [[0.25, 0.5, 0.25], { reward: 0.5 }, 2, 'The mean reward reached 0.5.'],
  [[0.5, 0.25, 0.25], { reward: 0.5 }, 1, 'The mean reward reached 0.5.'],
  [[0.25, 0.25, 0.25], { reward: 0.5 }, 3, 'All steps are done.'],
  // As good again is no better.
  [
    [0.25, 0.5, 0.5, 0.5, 0.5, 0.5],
    { patience: 2 },
    4,
    'The mean reward has not risen for 2 steps.',
  ],
  [[0.5, 0.25, 0.25, 0.25, 0.25], { patience: 3 }, 4, 'The mean reward has not risen for 3 steps.'],
  [[0.25, 0.5, 0.25, 0.75, 0.5], { patience: 2 }, 5, 'All steps are done.'],
] as const)(
  'steps with the rewards %j and %j end after %i',
  async (rewards, when, made, reason) => {
    expect(await stepsWith(rewards, when)).toEqual([made, reason])
  },
)

it('a step counts what its batch has, and all that it leaves out', async () => {
  const prompt = [1, 2]
  const { steps } = await trained({
    rows: [knownRow(0), knownRow(1)],
    rollouts: quickRollouts(({ row, attempt }) => ({
      // The attempts at the second row agree.
      reward: row === 0 ? attempt : 0.5,
      calls: [
        { promptTokenIds: prompt, completionTokenIds: [3, 4], ...logprobs(2), version: 'policy-0' },
        // A conversation of its own.
        { promptTokenIds: [9], completionTokenIds: [8] },
        {
          promptTokenIds: [...prompt, 3, 4, 5],
          completionTokenIds: [6],
          version: 'policy-0',
          sampling: { constraints: ['tool_choice'] },
        },
        { trainable: false },
        { trainable: false, completionTokenIds: null },
        { completionTokenIds: null },
        { logprobs: null },
        { promptTokenIds: null },
        { error: 'refused' },
      ],
    })),
  })
  const expected: BatchCounts = {
    groups: 2,
    groupsWithSignal: 1,
    // Two for each attempt at the row that differs.
    sequences: 4,
    tokens: 2 * (3 + 1),
    age: 0,
    // One for each of two attempts.
    constrained: 2,
    stale: 0,
    // One for each of four attempts, and so on.
    splits: 4,
    withoutIds: 4 * 3,
    untrainable: 4 * 2,
  }
  expect(steps.map(({ batch }) => batch)).toEqual([expected])
})

function logprobs(tokens: number): Pick<SequenceCall, 'logprobs'> {
  return {
    logprobs: { content: Array.from({ length: tokens }, () => ({ token: '', logprob: -1 })) },
  }
}

it.each([
  [undefined, 1 / 4],
  [0.5, 3 / 4],
  [0.75, 2 / 4],
  [0, 1],
])('rollouts pass that reach %s: %d of them', async (passThreshold, passRate) => {
  const { steps, evaluations } = await trained({
    attempts: 4,
    heldOut: [knownRow(3)],
    rollouts: quickRollouts(({ attempt }) => [0.25, 0.5, 0.75, 1][attempt] ?? 0),
    ...(passThreshold !== undefined && { passThreshold }),
  })
  const measured = [...steps, ...evaluations].map(({ rollouts }) => rollouts.passRate)
  expect(measured).toEqual([passRate, passRate, passRate])
})
