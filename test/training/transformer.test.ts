import type { TrainableSample, TrainingBatch } from '@osmosis/train'
import { expect } from 'vitest'

import { withTorch } from '../kit/index.ts'
import { compacting } from './agents/compacting.ts'
import { osmosis, traced } from './trainer-under-test.ts'
import { trainTransformer } from './transformer.ts'
import { lightning } from './worked-trainers.ts'

const { it } = withTorch()
const slow = { tags: 'slow', timeout: 600_000 }
const nightly = { tags: 'nightly', timeout: 600_000 }

it('a transformer learns to read the note from callbacks', nightly, async () => {
  const curve = await trainTransformer({ trainer: osmosis('callbacks'), updates: 14, until: 0.9 })
  expect(curve[0]?.reward).toBeLessThan(0.5)
  expect(curve.at(-1)?.reward).toBeGreaterThanOrEqual(0.9)
})

it.each([
  ['ids that are shifted by one', withShiftedIds, 0.05],
  ['logprobs that are changed by 0.01', withOtherLogprobs, 0.005],
])('a transformer does not learn from %s', slow, async (_, tamper, maxDrift) => {
  const few = { updates: 1, attempts: 3 }
  const training = { trainer: osmosis('callbacks'), ...few, tamper, maxDrift }
  await expect(trainTransformer(training)).rejects.toMatchObject({ code: 'training_drift' })
})

it.each([
  ['traces of POST /run', traced],
  ['the Agent Lightning link', lightning],
])('a transformer learns to read the note from %s', nightly, async (_, trainer) => {
  const curve = await trainTransformer({ trainer, updates: 14, until: 0.9 })
  expect(curve[0]?.reward).toBeLessThan(0.5)
  expect(curve.at(-1)?.reward).toBeGreaterThanOrEqual(0.9)
})

it(
  'learns from each part of a rewritten conversation, and not from the last alone',
  nightly,
  async () => {
    const training = { trainer: osmosis('callbacks'), agent: compacting, updates: 5 }
    const whole = await trainTransformer(training)
    expect(whole.at(-1)?.toolUse).toBeGreaterThan((whole[0]?.toolUse ?? 1) + 0.3)
    const last = await trainTransformer({ ...training, learnFrom: lastSequences })
    expect(last.at(-1)?.toolUse).toBeLessThan((last[0]?.toolUse ?? 0) + 0.15)
  },
)

it(
  'failures that count as zeros: the tool with which rollouts fail is used less',
  nightly,
  async () => {
    // After 5 the difference is not always larger than what chance makes.
    const failing = { failing: 0.6, updates: 8 }
    const zeros = await trainTransformer({
      ...failing,
      trainer: osmosis('callbacks', 0),
      failuresAs: 0,
    })
    expect(zeros.at(-1)?.toolUse).toBeLessThan((zeros[0]?.toolUse ?? 0) - 0.1)
    const leftOut = await trainTransformer({ ...failing, trainer: osmosis('callbacks') })
    expect(leftOut.at(-1)?.toolUse).toBeGreaterThan((leftOut[0]?.toolUse ?? 1) + 0.1)
  },
)

it('a transformer does not learn from rewards of other rollouts', nightly, async () => {
  const curve = await trainTransformer({
    trainer: osmosis('callbacks'),
    updates: 5,
    learnFrom: withShuffledRewards,
  })
  expect(Math.max(...curve.map(({ reward }) => reward))).toBeLessThan(0.6)
})

function withShiftedIds({ loss, sequences }: TrainingBatch): TrainingBatch {
  return {
    loss,
    sequences: sequences.map((sequence) => ({ ...sequence, ids: [...sequence.ids.slice(1), 0] })),
  }
}

function withOtherLogprobs({ loss, sequences }: TrainingBatch): TrainingBatch {
  return {
    loss,
    sequences: sequences.map((sequence) => ({
      ...sequence,
      logprobs: sequence.logprobs.map((logprob) => logprob - 0.01),
    })),
  }
}

function lastSequences(samples: readonly TrainableSample[]): TrainableSample[] {
  return samples.map((sample) => ({ ...sample, sequences: sample.sequences.slice(-1) }))
}

/** Each sample gets the reward of another one. */
function withShuffledRewards(samples: readonly TrainableSample[]): TrainableSample[] {
  return samples.map((sample, at) => ({
    ...sample,
    reward: samples[(at * 37 + 11) % samples.length]?.reward ?? 0,
  }))
}
