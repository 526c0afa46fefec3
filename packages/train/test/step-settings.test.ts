import type { SequenceCall } from '@osmosis/protocol/trajectory'
import {
  defaultUpdate,
  train,
  type PolicyLoss,
  type StepSettings,
  type TrainOptions,
  type TrainResult,
  type UpdateSettings,
} from '@osmosis/train'
import { describe, expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRow, KnownLearner } from './known-rollouts.ts'
import { quickRollouts, type QuickRollout } from './quick-rollouts.ts'

async function trained(
  more: Partial<TrainOptions> & { readonly learner: KnownLearner },
): Promise<TrainResult> {
  return train({
    folder: await temporaryFolder(),
    rollouts: quickRollouts(({ attempt }) => attempt),
    rows: [knownRow(0)],
    steps: 1,
    attempts: 2,
    ...more,
  })
}

async function settingsOf(update: TrainOptions['update']): Promise<UpdateSettings | undefined> {
  const learner = new KnownLearner({})
  await trained({ learner, ...(update && { update }) })
  return learner.updates[0]?.settings
}

/** Ratios of tokens are clipped below 0.8 and above 1.28; that of a whole sequence differs less from 1, and cispo has no lower bound. */
const bounds: Readonly<Record<PolicyLoss, readonly [low: number, high: number]>> = {
  dapo: [0.2, 0.28],
  grpo: [0.2, 0.28],
  dr_grpo: [0.2, 0.28],
  cispo: [1, 5],
  gspo: [0.0003, 0.0004],
}

describe('an update', () => {
  it.each(Object.entries(bounds) as [PolicyLoss, readonly [number, number]][])(
    'with the loss %s is clipped at its own bounds, or at those that it is given',
    async (loss, [clipLow, clipHigh]) => {
      expect(await settingsOf({ loss })).toMatchObject({ loss, clipLow, clipHigh })
      expect(await settingsOf({ loss, clipLow: 0.5 })).toMatchObject({ clipLow: 0.5, clipHigh })
      expect(await settingsOf({ loss, clipHigh: 0.5 })).toMatchObject({ clipLow, clipHigh: 0.5 })
    },
  )

  it('is clipped as that of dapo where no loss is named', async () => {
    expect(await settingsOf(undefined)).toMatchObject({
      loss: 'dapo',
      clipLow: 0.2,
      clipHigh: 0.28,
    })
  })

  it.each([undefined, 0, 0.05, 1.5])(
    'is refused beyond the mean drift of logprobs that a training allows: %s',
    async (maxDrift) => {
      const allowed = await settingsOf(maxDrift === undefined ? {} : { maxDrift })
      expect(allowed?.maxDrift).toBe(maxDrift ?? 0.3)
    },
  )

  it('gets a value for each of its settings, of which none is without a limit', async () => {
    const settings = await settingsOf({})
    expect(Object.keys(settings ?? {}).toSorted()).toEqual(Object.keys(defaultUpdate).toSorted())
    for (const value of Object.values(settings ?? {})) {
      expect(typeof value === 'string' || Number.isFinite(value)).toBe(true)
    }
  })
})

/** In the second step: an answer of the version before, one of the current version that was cut, and one that is neither. */
function rolloutOf({ attempt, before }: { attempt: number; before: number }): QuickRollout {
  const version = attempt === 0 ? Math.max(0, before - 1) : before
  const call: Partial<SequenceCall> = {
    version: `policy-${version}`,
    finishReason: attempt === 1 ? 'length' : 'stop',
  }
  return { reward: [0, 0.3, 1][attempt] ?? 0, calls: [call] }
}

/** How a training is started, and how it is continued, for each setting that a step stores. */
const otherwise: Readonly<
  Record<keyof StepSettings, readonly [first: Partial<TrainOptions>, next: Partial<TrainOptions>]>
> = {
  maxStaleness: [{ maxStaleness: 1 }, { maxStaleness: 0 }],
  maskCutAnswers: [{ maskCutAnswers: true }, { maskCutAnswers: false }],
  threshold: [
    { warmStart: { steps: 1, threshold: 0.2 } },
    { warmStart: { steps: 1, threshold: 0.9 } },
  ],
  normalizeAdvantages: [{ normalizeAdvantages: false }, { normalizeAdvantages: true }],
  update: [
    { update: { loss: 'gspo', learningRate: 0.5, maxDrift: 0.1 } },
    { update: { loss: 'grpo', learningRate: 0.25, maxDrift: 0.2 } },
  ],
}

describe('updates that are lost', () => {
  const directions = Object.entries(otherwise).flatMap(([name, [first, next]]) => [
    { name, first, next },
    { name: `${name}, the other way round`, first: next, next: first },
  ])

  it.each(directions)(
    'are made again as before when the next process has another value: $name',
    async ({ first, next }) => {
      const folder = await temporaryFolder()
      // Beside an update the rollouts would be those of an older version.
      const options = {
        folder,
        rollouts: quickRollouts(rolloutOf),
        attempts: 3,
        keepCheckpoints: 1,
      }
      const learner = new KnownLearner({})
      const made = { ...options, checkpointEvery: 9, ...first }
      const stopped = new AbortController()
      const stop = ({ step }: { readonly step: number }): void => {
        if (step === 2) throw new Error('killed')
      }
      // No state but that of the start is saved.
      learner.save = onceOnly(learner.save.bind(learner))
      const killed = trained({ ...made, learner, steps: 3, onStep: stop, signal: stopped.signal })
      await expect(killed).rejects.toThrow('killed')
      expect(learner.updates).toHaveLength(2)

      const second = new KnownLearner({})
      await trained({ ...options, ...next, learner: second, steps: 2 })
      expect(second.updates).toEqual(learner.updates)

      // From the start, the other value would have made other updates.
      const fresh = new KnownLearner({})
      await trained({
        ...options,
        folder: await temporaryFolder(),
        ...next,
        learner: fresh,
        steps: 2,
      })
      expect(fresh.updates.map(withoutIds)).not.toEqual(learner.updates.map(withoutIds))
    },
  )
})

it('updates that were not made, because there was nothing to learn, are not made again', async () => {
  const folder = await temporaryFolder()
  const learner = new KnownLearner({})
  learner.save = onceOnly(learner.save.bind(learner))
  // The attempts differ in the second and in the fourth step.
  const rollouts = quickRollouts(({ attempt, before }) => (before % 2 === 0 ? 0.5 : attempt))
  const stop = ({ step }: { readonly step: number }): void => {
    if (step === 4) throw new Error('killed')
  }
  const options = { folder, rollouts, checkpointEvery: 9 }
  const killed = trained({ ...options, learner, steps: 5, onStep: stop })
  await expect(killed).rejects.toThrow('killed')
  expect(learner.updates).toHaveLength(2)
  const second = new KnownLearner({})
  const { steps } = await trained({ ...options, learner: second, steps: 4 })
  expect(second.updates).toEqual(learner.updates)
  expect(steps.map(({ version }) => version)).toEqual([0, 1, 1, 2])
})

/** A disk on which the first state can be saved, and no other one. */
function onceOnly(save: (folder: string) => Promise<void>): (folder: string) => Promise<void> {
  let isFirst = true
  return async (folder) => {
    if (!isFirst) throw new Error('There is no space.')
    isFirst = false
    await save(folder)
  }
}

/** Ids of rollouts are random. */
function withoutIds({ batch, settings }: KnownLearner['updates'][number]): unknown {
  const sequences = batch.sequences.map((sequence) => ({ ...sequence, rolloutId: '' }))
  return { settings, batch: { ...batch, sequences } }
}

it('a step knows all steps before it, also those of an earlier process', async () => {
  const rewards = [0.8, 0.9, 0.8, 0.9, 0.2, 0.1, 0.1, 0.1]
  const folder = await temporaryFolder()
  const rollouts = quickRollouts(({ attempt, before }) => {
    const mean = rewards[before] ?? 0
    return mean + (attempt === 0 ? 0.05 : -0.05)
  })
  const source = await rollouts(new KnownLearner({}).policy)
  const options = { folder, rollouts: async () => source }
  await trained({ ...options, learner: new KnownLearner({}), steps: 5 })
  const { steps } = await trained({ ...options, learner: new KnownLearner({}), steps: 8 })
  const collapsed = steps.filter(({ alarms }) => alarms.some((text) => text.includes('collapses')))
  // One bad step is none: the mean of the last three has to be less than half of the best.
  expect(collapsed.map(({ step }) => step)).toEqual([6, 7, 8])
  expect(collapsed[0]?.alarms.join()).toContain('The reward fell from 0.87 to 0.10')
})
