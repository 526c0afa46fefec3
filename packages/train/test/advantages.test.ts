import { policyGradientBatch, type TrainableSample } from '@osmosis/train'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { groupAdvantages } from '../src/batch/advantages.ts'

function sample(attempt: number, reward: number): TrainableSample {
  const sequence = {
    ids: [1, 2],
    logprobs: [0, -1],
    answers: [{ call: 0, start: 1, end: 2, version: null }],
    temperature: 1,
  }
  const named = { rolloutId: `r${attempt}`, sampleId: 'main', row: 0, reward }
  return { ...named, sequences: [sequence], withoutIds: 0, untrainable: 0 }
}

/** Sums of the same parts in another order, whose last digits differ. */
const sums = fc
  .array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 5 })
  .map((parts) => [parts, parts.toReversed()].map((all) => all.reduce((sum, part) => sum + part)))

it('rewards that differ by rounding alone are no signal, and train nothing', () => {
  const rewards = fc.oneof(fc.constant([0.1 + 0.2, 0.3]), sums)
  fc.assert(
    fc.property(rewards, fc.boolean(), (values, normalize) => {
      const samples = values.map((reward, at) => sample(at, reward))
      const { batch, counts } = policyGradientBatch(samples, { version: 0, normalize })
      expect(batch.sequences).toEqual([])
      expect(counts).toMatchObject({ groups: 1, groupsWithSignal: 0 })
    }),
  )
})

it('an attempt whose reward is the mean but for rounding is not trained', () => {
  const samples = [0, 0.1 + 0.2, 0.6].map((reward, at) => sample(at, reward))
  const { batch } = policyGradientBatch(samples, { version: 0 })
  expect(batch.sequences.map(({ rolloutId }) => rolloutId)).toEqual(['r0', 'r2'])
})

it('a small difference is one, and so is that of step rewards', () => {
  const of = (...rewards: number[]): number[] =>
    groupAdvantages(rewards.map((reward) => ({ group: 'a', reward }))).map((weigh) =>
      Math.sign(weigh(0)),
    )
  expect(of(0, 1e-6)).toEqual([-1, 1])
  expect(of(1000, 1000.01)).toEqual([-1, 1])
  const steps = [[0.1 + 0.2], [0.3]].map((stepRewards) => ({ group: 'a', reward: 0, stepRewards }))
  expect(groupAdvantages(steps).map((weigh) => weigh(0))).toEqual([0, 0])
})
