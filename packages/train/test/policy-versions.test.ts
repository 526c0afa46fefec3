import { policyGradientBatch, train, type TrainableSample } from '@osmosis/train'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { rejectionBatch } from '../src/batch/training-batch.ts'
import { knownRow, KnownLearner } from './known-rollouts.ts'
import { quickRollouts } from './quick-rollouts.ts'

/** Two attempts at a row that differ, with one sequence each, of which each answer has one of these versions. */
function samplesOf(versions: readonly (string | null)[]): TrainableSample[] {
  return [0, 1].map((reward) => ({
    rolloutId: `r${reward}`,
    sampleId: 'main',
    row: 0,
    reward,
    sequences: [
      {
        ids: versions.map(() => 1),
        logprobs: versions.map(() => -1),
        answers: versions.map((version, call) => ({ call, start: call, end: call + 1, version })),
        temperature: 1,
      },
    ],
    withoutIds: 0,
    untrainable: 0,
  }))
}

/** Names of models, which have numbers of their own. */
const models = fc.constantFrom(
  '',
  'policy-',
  'Qwen3-8B/policy-',
  'meta-llama/Llama-3.1-8B-Instruct-',
  '3-2-1-',
  'run-2026-11-29/policy-',
)

it('the version of an answer is the number at the end of its model’s name', () => {
  fc.assert(
    fc.property(models, fc.nat(10_000), fc.nat(3), fc.nat(3), (model, number, age, allowed) => {
      const version = number + age
      const options = { version, maxStaleness: allowed }
      for (const { batch, counts } of [
        policyGradientBatch(samplesOf([`${model}${number}`]), options),
        rejectionBatch(samplesOf([`${model}${number}`]), { ...options, threshold: 0 }),
      ]) {
        const isStale = age > allowed
        expect(counts).toMatchObject({ stale: isStale ? 2 : 0, sequences: isStale ? 0 : 2 })
        const versions = batch.sequences.map(({ policyVersion }) => policyVersion)
        expect(versions).toEqual(isStale ? [] : [number, number])
      }
    }),
  )
})

it.each([null, '', 'policy', 'Qwen3-8B', 'gpt-4o', 'weights-7b', 'step-3-final', 'llama3.2'])(
  'an answer of %j, a name without a number, is never stale',
  (name) => {
    for (const version of [0, 1, 8, 1000]) {
      const { batch, counts } = policyGradientBatch(samplesOf([name]), { version })
      expect(counts).toMatchObject({ stale: 0, sequences: 2 })
      expect(batch.sequences.map(({ policyVersion }) => policyVersion)).toEqual([
        Infinity,
        Infinity,
      ])
    }
  },
)

it('the age of a batch is that of the sequences whose version is known', () => {
  const [known, unknown] = [samplesOf(['policy-4']), samplesOf(['base'])]
  const samples = [...known.slice(0, 1), ...unknown.slice(1)]
  const { counts } = policyGradientBatch(samples, { version: 7, maxStaleness: 3 })
  expect(counts).toMatchObject({ sequences: 2, age: 3 })
})

it('a sequence is as old as the oldest of its answers that has a number', () => {
  const version = fc.option(fc.nat(9), { nil: null })
  fc.assert(
    fc.property(fc.array(version, { minLength: 1, maxLength: 5 }), fc.nat(9), (versions, now) => {
      const names = versions.map((number) => (number === null ? 'base' : `policy-${number}`))
      const { batch, counts } = policyGradientBatch(samplesOf(names), {
        version: now,
        maxStaleness: 2,
      })
      const numbers = versions.filter((number) => number !== null)
      const isStale = numbers.some((number) => now - number > 2)
      expect(counts.stale).toBe(isStale ? 2 : 0)
      const age = isStale || numbers.length === 0 ? 0 : now - Math.min(...numbers)
      expect(counts.age).toBe(age)
      const newest = versions.includes(null) ? Infinity : Math.max(...numbers)
      for (const { newestVersion } of batch.sequences) expect(newestVersion).toBe(newest)
    }),
  )
})

it.each([
  ['what most sequences have', ['policy-4', 'policy-4', 'policy-5'], 4],
  ['what most sequences have, also when it is newer', ['policy-5', 'policy-4', 'policy-5'], 5],
  ['the older of two that are as frequent', ['policy-5', 'policy-4', 'policy-5', 'policy-4'], 4],
  ['that of the names with a number', ['base', 'Qwen3-8B/policy-3', 'base', 'base'], 3],
  ['that of the learner where no name has one', ['base', 'base'], 0],
] as const)('a step was sampled by the version that is %s', async (_, versions, expected) => {
  const { steps } = await train({
    folder: await temporaryFolder(),
    learner: new KnownLearner({}),
    rollouts: quickRollouts(({ attempt }) => ({
      reward: attempt,
      calls: [{ version: versions[attempt] ?? null }],
    })),
    rows: [knownRow(0)],
    steps: 1,
    attempts: versions.length,
  })
  expect(steps.map(({ sampledBy }) => sampledBy)).toEqual([expected])
})
