import { train } from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRollouts, knownRow, KnownLearner, type KnownAttempts } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

const call = { prompt: [1, 9], ids: [2], logprobs: [-1] }

const same = [
  [0, 0],
  [1, 1],
  [0.5, 0.5],
  [0, 0],
] as const

it.each([
  ['by default after 3 steps', same, undefined, 5, 3],
  ['after as many steps as it is told', same, 2, 5, 2],
  ['when rewards differ by rounding', [[0.3, 0.1 + 0.2], ...same.slice(1)], undefined, 5, 3],
  ['never when it is told so', same, 0, 5, 5],
  ['not when one row differs', [...same.slice(1), [0, 1]], undefined, 5, 5],
  ['not when some steps had one', [[0, 1], ...same, ...same], undefined, 5, 5],
  ['not when it has fewer steps', same, 3, 2, 2],
] as const)(
  'a training without a signal ends early: %s',
  async (_, rows, withoutSignal, steps, made) => {
    const result = await train({
      folder: await temporaryFolder(),
      learner: new KnownLearner({}),
      rollouts: quickRollouts(({ row, attempt }) => rows[row]?.[attempt] ?? 0),
      rows: rows.map((__, at) => knownRow(at)),
      heldOut: [knownRow(0)],
      heldOutAttempts: 2,
      steps,
      rowsPerStep: 4,
      attempts: 2,
      stopWhen: withoutSignal === undefined ? {} : { withoutSignal },
    })
    expect(result.steps).toHaveLength(made)
    const isLearning = result.steps.some(({ update }) => update !== null)
    // Weights that have not changed are not evaluated again.
    expect(result.evaluations).toHaveLength(isLearning ? 2 : 1)
    expect(result.reason).toBe(
      made === steps ? 'All steps are done.' : `None of ${made} steps had a signal.`,
    )
  },
)

it('a training whose signal ended ends, too, and another call tries as many steps again', async () => {
  const folder = await temporaryFolder()
  const options = {
    folder,
    rollouts: quickRollouts(({ attempt, before }) => (before < 2 ? attempt : 0)),
    rows: [knownRow(0)],
    steps: 20,
    attempts: 2,
  }
  const source = await options.rollouts(new KnownLearner({}).policy)
  const again = { ...options, rollouts: async () => source }
  const first = await train({ ...again, learner: new KnownLearner({}) })
  expect([first.steps.length, first.reason]).toEqual([5, 'None of the last 3 steps had a signal.'])
  const second = await train({ ...again, learner: new KnownLearner({}) })
  expect(second.steps).toHaveLength(8)
})

it.each([
  ['reaches a reward', { reward: 0.5 }, 2, 'The held-out reward reached 0.5.'],
  ['does not rise', { patience: 4 }, 8, 'The held-out reward has not risen for 4 steps.'],
  ['does neither', { reward: 2, patience: 20 }, 10, 'All steps are done.'],
] as const)(
  'a training ends when the reward of held-out rows %s, whatever the steps get',
  async (_, stopWhen, made, reason) => {
    const learner = new KnownLearner({})
    // Better after the second and the fourth step.
    const heldOut = (): number => [0.1, 0.1, 0.6, 0.6][learner.version] ?? 0.7
    const { steps, reason: given } = await train({
      folder: await temporaryFolder(),
      learner,
      rollouts: quickRollouts(({ row, attempt }) => (row === 1 ? heldOut() : attempt)),
      rows: [knownRow(0)],
      heldOut: [knownRow(1)],
      heldOutAttempts: 2,
      evaluateEvery: 2,
      steps: 10,
      rowsPerStep: 1,
      attempts: 2,
      stopWhen,
    })
    expect(steps).toHaveLength(made)
    expect(given).toBe(reason)
  },
)

// Each letter is the id of a sample, and each word an attempt.
it.each([
  ['one sample: they are compared', 'a b c', 1],
  ['two samples: they are compared by id', 'ax bx cx', 1],
  ['two samples, all with other ids: nothing is compared', 'ab cd', 0],
] as const)(
  'attempts at a row that name their samples otherwise have %s',
  async (_, words, signals) => {
    const ids = words.split(' ').map((word) => word.split(''))
    const attempts: KnownAttempts = {
      0: ids.map((names, attempt) => ({
        calls: Object.fromEntries(names.map((name) => [name, [call]])),
        rewards: Object.fromEntries(names.map((name) => [name, attempt])),
      })),
    }
    const learner = new KnownLearner(attempts)
    const { steps } = await train({
      folder: await temporaryFolder(),
      learner,
      rollouts: await knownRollouts(attempts),
      rows: [knownRow(0)],
      steps: 1,
      rowsPerStep: 1,
      attempts: ids.length,
    })
    expect(steps[0]?.batch.groupsWithSignal).toBe(signals)
    const trained = learner.updates.flatMap(({ batch }) => batch.sequences)
    // The attempt in the middle of three has the mean reward.
    expect(trained).toHaveLength(2 * signals)
    expect(steps[0]?.alarms.some((alarm) => alarm.includes('give agents names'))).toBe(
      signals === 0,
    )
  },
)
