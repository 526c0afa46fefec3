import {
  defaultUpdate,
  openTinkerLearner,
  type BatchSequence,
  type TinkerLearner,
  type TrainingBatch,
  type UpdateFigures,
} from '@osmosis/train'
import { expect, it, onTestFinished } from 'vitest'

import { FakeTinker, tokenModelFolder } from '../../../../test/kit/index.ts'

async function opened(): Promise<{
  readonly service: FakeTinker
  readonly learner: TinkerLearner
}> {
  const service = await new FakeTinker().start()
  onTestFinished(() => service[Symbol.asyncDispose]())
  const learner = await openTinkerLearner({
    url: service.url,
    apiKey: 'tml-0123456789',
    baseModel: 'token-model',
    tokenizer: await tokenModelFolder(),
    maxLength: 64,
  })
  onTestFinished(() => learner.close())
  return { service, learner }
}

/** A sequence whose last tokens were sampled with these logprobs. */
function sequence(...recorded: readonly number[]): BatchSequence {
  const ids = [2, 5, 0, 3, 6, 0]
  const padding = ids.slice(recorded.length).map(() => 0 as const)
  return {
    ids,
    logprobs: [...padding, ...recorded],
    advantages: [...padding, ...recorded.map(() => 1)],
    mask: [...padding, ...recorded.map(() => 1 as const)],
    temperature: 1,
    rolloutId: 'r',
    sampleId: 's',
    policyVersion: 0,
    newestVersion: 0,
  }
}

function batch(...sequences: readonly BatchSequence[]): TrainingBatch {
  return { loss: 'policy_gradient', sequences }
}

/** What a service measures that was never updated. */
async function measured(...sequences: readonly BatchSequence[]): Promise<UpdateFigures> {
  const { learner } = await opened()
  return learner.update(batch(...sequences), { ...defaultUpdate, maxDrift: Infinity })
}

it('drift is the mean difference of all sampled tokens, in whichever direction', async () => {
  const far = 100
  // Far below what any token has: each difference is that of the service's own logprob and of ours.
  const { driftMean: base, driftMax: most } = await measured(sequence(-far, -far), sequence(-far))
  const drift = async (...sequences: readonly BatchSequence[]): Promise<number> =>
    ((await measured(...sequences)).driftMean ?? 0) - (base ?? 0)
  expect(base).toBeLessThanOrEqual(far)
  expect(most).toBeGreaterThanOrEqual(base ?? 0)
  expect(await drift(sequence(-far - 3, -far), sequence(-far))).toBeCloseTo(1, 6)
  expect(await drift(sequence(-far, -far - 3), sequence(-far))).toBeCloseTo(1, 6)
  expect(await drift(sequence(-far, -far), sequence(-far - 3))).toBeCloseTo(1, 6)
  // As far above: what was the smaller difference is the larger one.
  const above = (await measured(sequence(far, far), sequence(far))).driftMean ?? 0
  expect(above + (base ?? 0)).toBeCloseTo(2 * far, 6)
})

it('an update is made up to the drift that is allowed, and nothing is changed beyond it', async () => {
  const { driftMean } = await measured(sequence(-1, -2))
  const mean = driftMean ?? 0
  expect(mean).toBeGreaterThan(0.1)
  const { service, learner } = await opened()
  for (const maxDrift of [0, mean / 2, mean - 1e-6]) {
    const made = learner.update(batch(sequence(-1, -2)), { ...defaultUpdate, maxDrift })
    await expect(made).rejects.toMatchObject({ code: 'training_drift' })
  }
  expect(learner.version).toBe(0)
  expect(service.sentTo('optim_step')).toEqual([])
  const settings = { ...defaultUpdate, maxDrift: mean + 1e-6 }
  const { driftMean: now } = await learner.update(batch(sequence(-1, -2)), settings)
  expect(now).toBeCloseTo(mean, 6)
  expect(learner.version).toBe(1)
  expect(service.sentTo('optim_step')).toHaveLength(1)
})

it.each([
  [0.29, true],
  [0.31, false],
])('an update with the default settings and a drift of %d is made: %s', async (by, isMade) => {
  const far = 50
  const { driftMean } = await measured(sequence(-far))
  const own = (driftMean ?? 0) - far
  for (const recorded of [own - by, own + by]) {
    const { learner } = await opened()
    const outcome = await learner.update(batch(sequence(recorded)), defaultUpdate).then(
      (figures) => Math.round((figures.driftMean ?? 0) * 1e6) / 1e6,
      (error: { readonly code: string }) => error.code,
    )
    expect(outcome).toBe(isMade ? by : 'training_drift')
    expect(learner.version).toBe(isMade ? 1 : 0)
  }
})
