import path from 'node:path'

import { temporaryFolder } from '@osmosis/testing/kit'
import { afterAll, beforeAll, describe, expect } from 'vitest'

import {
  openLocalLearner,
  train,
  type Learner,
  type TrainingBatch,
  type TrainOptions,
} from '../src/index.ts'
import { doorRollouts, doors } from './doors.ts'
import { pythonWithTorch, withTorch } from './python-torch.ts'

const { it } = withTorch()
const limit = { timeout: 600_000 }

let served: Awaited<ReturnType<typeof doorRollouts>>
beforeAll(async () => {
  served = await doorRollouts()
})
afterAll(() => served.close())

/** The learner with a transformer of about 150,000 weights and tokens of text. */
function transformer(): Promise<Learner> {
  const file = path.join(import.meta.dirname, 'learner', 'tiny_policy.py')
  return openLocalLearner({
    model: 'tiny',
    ...(pythonWithTorch && { python: pythonWithTorch }),
    policyClass: `${file}:TinyPolicy`,
    loraRank: 0,
    threads: 1,
    maxLength: 256,
  })
}

async function trained(
  change: (learner: Learner) => Learner,
  options: Partial<TrainOptions> = {},
): Promise<number[]> {
  const learner = await transformer()
  try {
    const { steps } = await train({
      folder: await temporaryFolder(),
      learner: change(learner),
      rollouts: served.rollouts,
      rows: doors,
      steps: 10,
      rowsPerStep: 16,
      attempts: 8,
      update: { learningRate: 1e-3, epochs: 2, minibatches: 2 },
      ...options,
    })
    for (const { update } of steps) expect(update?.driftMax).toBeLessThan(1e-4)
    return steps.map(({ rollouts }) => rollouts.reward ?? 0)
  } finally {
    await learner.close()
  }
}

/** The same learner, which learns from something else than was sampled. */
function tampered(learner: Learner, tamper: (batch: TrainingBatch) => TrainingBatch): Learner {
  return {
    name: learner.name,
    policy: learner.policy,
    get version() {
      return learner.version
    },
    update: (batch, settings) => learner.update(tamper(batch), settings),
    save: (folder) => learner.save(folder),
    load: (folder) => learner.load(folder),
    export: (folder) => learner.export(folder),
    close: () => learner.close(),
  }
}

it('a transformer learns to use its tool, and to say what it read', limit, async () => {
  const rewards = await trained((learner) => learner, { stopWhen: { reward: 0.9 }, steps: 14 })
  expect(rewards[0]).toBeLessThan(0.5)
  expect(Math.max(...rewards)).toBeGreaterThan(0.85)
})

describe('what must not learn does not', () => {
  it('advantages of other sequences', limit, async () => {
    const rewards = await trained((learner) =>
      tampered(learner, ({ loss, sequences }) => ({
        loss,
        // Reversed, so that the advantages belong to other attempts.
        sequences: sequences.map((sequence, at) => {
          const other = sequences.at(-1 - at)?.advantages.find((advantage) => advantage !== 0) ?? 0
          return { ...sequence, advantages: sequence.mask.map((one) => one * other) }
        }),
      })),
    )
    expect(Math.max(...rewards.slice(-3))).toBeLessThan(0.6)
  })

  it.each([
    [
      'ids that are shifted by one',
      (batch: TrainingBatch): TrainingBatch => ({
        ...batch,
        sequences: batch.sequences.map((sequence) => ({
          ...sequence,
          ids: [...sequence.ids.slice(1), 0],
        })),
      }),
      0.05,
    ],
    [
      'logprobs that are changed by 0.01',
      (batch: TrainingBatch): TrainingBatch => ({
        ...batch,
        sequences: batch.sequences.map((sequence) => ({
          ...sequence,
          logprobs: sequence.logprobs.map((logprob) => logprob - 0.01),
        })),
      }),
      0.005,
    ],
  ])('%s are refused, and nothing is changed', limit, async (_, tamper, maxDrift) => {
    const update = { learningRate: 1e-3, maxDrift }
    await expect(
      trained((learner) => tampered(learner, tamper), { steps: 1, update }),
    ).rejects.toMatchObject({ code: 'training_drift' })
  })
})
