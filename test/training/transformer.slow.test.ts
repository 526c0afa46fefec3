import { withTorch } from '../kit/index.ts'
import type { TrainingBatch } from '@osmosis/train'
import { expect } from 'vitest'

import { osmosis } from './trainer-under-test.ts'
import { trainTransformer } from './transformer.ts'

const { it } = withTorch()
const limit = { timeout: 600_000 }

it('a transformer learns to read the note from callbacks', limit, async () => {
  const curve = await trainTransformer({ trainer: osmosis('callbacks'), updates: 14, until: 0.9 })
  expect(curve[0]?.reward).toBeLessThan(0.5)
  expect(curve.at(-1)?.reward).toBeGreaterThanOrEqual(0.9)
})

it.each([
  ['ids that are shifted by one', withShiftedIds, 0.05],
  ['logprobs that are changed by 0.01', withOtherLogprobs, 0.005],
])('a transformer does not learn from %s', limit, async (_, tamper, maxDrift) => {
  const training = { trainer: osmosis('callbacks'), updates: 1, tamper, maxDrift }
  await expect(trainTransformer(training)).rejects.toMatchObject({ code: 'training_drift' })
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
