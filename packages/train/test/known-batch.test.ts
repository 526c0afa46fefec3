import path from 'node:path'

import { openRun } from '@osmosis/eval'
import {
  defaultUpdate,
  train,
  type BatchSequence,
  type TrainOptions,
  type TrainResult,
} from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import {
  knownRollouts,
  knownRow,
  KnownLearner,
  type KnownAttempts,
  type KnownCall,
} from './known-rollouts.ts'

function call(prompt: number[], answer: Record<number, number>, more: object = {}): KnownCall {
  const entries = Object.entries(answer)
  return {
    prompt,
    ids: entries.map(([id]) => Number(id)),
    logprobs: entries.map(([, logprob]) => logprob),
    ...more,
  }
}

/** Five attempts at each of two rows, with a conversation that asks and one that solves. */
const attempts: KnownAttempts = {
  0: [
    {
      calls: {
        asker: [call([10, 1], { 21: -0.1, 22: -0.2 })],
        // An older version still gave the first answer in the second step.
        solver: [
          call([10, 2], { 31: -0.3 }, { version: 0 }),
          call([10, 2, 31, 90], { 32: -0.4, 33: -0.5 }),
        ],
      },
      rewards: { asker: 1, solver: 0 },
    },
    {
      // The solver's history is rewritten.
      calls: {
        asker: [call([10, 1], { 24: -0.6 })],
        solver: [call([10, 2], { 31: -0.3 }), call([10, 2, 91], { 34: -0.7 })],
      },
      rewards: { asker: 'removed', solver: 1 },
    },
    {
      calls: {
        asker: [call([10, 1], { 25: -0.8 })],
        solver: [call([10, 2], { 35: -0.9 })],
      },
      rewards: { asker: 1, solver: 1 },
      fails: true,
    },
    {
      calls: {
        asker: [call([10, 1], { 23: -1 }, { isCut: true })],
        solver: [call([10, 2], { 36: -1.1 })],
      },
      rewards: { asker: 0.25, solver: 0.5 },
    },
    {
      // A rollout that is graded in part has failed.
      calls: {
        asker: [call([10, 1], { 37: -2.5 })],
        solver: [call([10, 2], { 38: -2.6 })],
      },
      rewards: { asker: 0 },
    },
  ],
  1: [
    {
      calls: {
        asker: [call([11, 1], { 26: -1.2 }, { isWithoutIds: true })],
        solver: [
          call([11, 2], { 41: -1.3, 42: -1.4 }),
          call([], {}, { isRefused: true }),
          call([11, 2, 41, 42, 92], { 43: -1.5 }),
        ],
      },
      rewards: { asker: 1, solver: 1 },
      stepRewards: { solver: [1, 0] },
    },
    {
      calls: {
        asker: [call([11, 1], { 27: -1.6 })],
        solver: [call([11, 2], { 44: -1.7 }), call([11, 2, 44, 93], { 45: -1.8 })],
      },
      rewards: { asker: 1, solver: 1 },
      stepRewards: { solver: [0, null] },
    },
    {
      calls: {
        asker: [call([11, 1], { 28: -1.9 })],
        solver: [call([11, 2], { 46: -2 }), call([11, 2, 46, 93], { 47: -2.1 })],
      },
      rewards: { asker: 1, solver: 1 },
      stepRewards: { solver: [null, 1] },
    },
    {
      calls: {
        asker: [call([11, 1], { 29: -2.2 })],
        solver: [call([11, 2], { 48: -2.3 }), call([11, 2, 48, 93], { 49: -2.4 })],
      },
      rewards: { asker: 1, solver: 1 },
      stepRewards: { solver: [0, 0] },
    },
    {
      calls: {
        asker: [call([11, 1], { 39: -2.7 })],
        solver: [call([11, 2], { 40: -2.8 })],
      },
      rewards: {},
      fails: true,
    },
  ],
}

// Deviations of the population. Rewards of the asker of row 0: 1 and 0.25; of its solver: 0, 1 and 0.5.
const asker = 0.375 / (0.375 + 1e-4)
const solver = 0.5 / (Math.sqrt(1 / 6) + 1e-4)
// Step rewards of row 1: 1, 0, 0, 1, 0, 0. An answer has what it and the later ones of its sample earned.
const third = 1 / 3 / (Math.sqrt(2 / 9) + 1e-4)

type KnownSequence = Omit<BatchSequence, 'rolloutId' | 'policyVersion' | 'newestVersion'> & {
  readonly run: string
}

/** @param tokens - id, logprob and advantage of each; a prompt's token has its id alone */
function sequence(
  run: string,
  sampleId: string,
  ...tokens: readonly (readonly [id: number, logprob?: number, advantage?: number])[]
): KnownSequence {
  return {
    run,
    sampleId,
    ids: tokens.map(([id]) => id),
    mask: tokens.map(({ length }) => (length === 1 ? 0 : 1)),
    logprobs: tokens.map(([, logprob = 0]) => logprob),
    advantages: tokens.map(([, , advantage = 0]) => advantage),
    temperature: sampleId === 'asker' ? 1 : 0.7,
  }
}

const askerOfRun0 = sequence('0-0', 'asker', [10], [1], [21, -0.1, asker], [22, -0.2, asker])
const solverOfRun0 = sequence(
  '0-0',
  'solver',
  ...([[10], [2], [31, -0.3, -solver], [90], [32, -0.4, -solver], [33, -0.5, -solver]] as const),
)
const others = [
  sequence('0-1', 'solver', [10], [2], [31, -0.3, solver]),
  sequence('0-1', 'solver', [10], [2], [91], [34, -0.7, solver]),
  sequence('0-3', 'asker', [10], [1], [23, -1, -asker]),
  sequence(
    '1-0',
    'solver',
    ...([[11], [2], [41, -1.3, third], [42, -1.4, third], [92], [43, -1.5, -third]] as const),
  ),
  sequence('1-1', 'solver', [11], [2], [44, -1.7, -third], [93], [45, -1.8, 0]),
  sequence('1-2', 'solver', [11], [2], [46, -2, 2 * third], [93], [47, -2.1, 2 * third]),
  sequence('1-3', 'solver', [11], [2], [48, -2.3, -2 * third], [93], [49, -2.4, -third]),
]

const counts = { groups: 4, groupsWithSignal: 3, splits: 1, withoutIds: 1, untrainable: 0 }

async function trained(
  more: Partial<TrainOptions>,
  known: KnownAttempts = attempts,
): Promise<{ learner: KnownLearner; result: TrainResult; batches: KnownSequence[][] }> {
  const learner = new KnownLearner(known)
  const result = await train({
    folder: await temporaryFolder(),
    learner,
    rollouts: await knownRollouts(known),
    rows: [knownRow(0), knownRow(1)],
    steps: 1,
    attempts: 5,
    ...more,
  })
  const batches = learner.updates.map(({ batch }) =>
    batch.sequences.map(
      ({ rolloutId, advantages, ids, mask, logprobs, temperature, sampleId }) => ({
        run: rolloutId.replace(/^eval-(\d+)-run-(\d+)-.*$/, '$1-$2'),
        sampleId,
        ids,
        mask,
        logprobs,
        temperature,
        advantages: advantages.map(rounded),
      }),
    ),
  )
  return { learner, result, batches }
}

function rounded(value: number): number {
  return Math.round(value * 1e9) / 1e9
}

function roundedSequences(sequences: readonly KnownSequence[]): KnownSequence[] {
  return sequences.map((one) => ({ ...one, advantages: one.advantages.map(rounded) }))
}

it('makes the batches that known rollouts have to make, number by number', async () => {
  const { learner, result, batches } = await trained({
    steps: 2,
    seed: 5,
    update: { learningRate: 0.25, epochs: 3, clipLow: 0.1 },
  })
  expect(batches[0]).toEqual(roundedSequences([askerOfRun0, solverOfRun0, ...others]))
  // What the version before said in part is left out, and still a part of its group.
  expect(batches[1]).toEqual(roundedSequences([askerOfRun0, ...others]))
  const versions = learner.updates.map(({ batch: { loss, sequences } }) => [
    loss,
    ...new Set(sequences.map(({ policyVersion }) => policyVersion)),
  ])
  expect(versions).toEqual([
    ['policy_gradient', 0],
    ['policy_gradient', 1],
  ])
  expect(result.steps.map(({ batch }) => batch)).toEqual([
    { ...counts, sequences: 9, tokens: 17, age: 0, constrained: 0, stale: 0 },
    { ...counts, sequences: 8, tokens: 14, age: 0, constrained: 0, stale: 1 },
  ])
  const given = { ...defaultUpdate, learningRate: 0.25, epochs: 3, clipLow: 0.1 }
  expect(learner.updates.map(({ settings }) => settings)).toEqual([
    { ...given, seed: 5 },
    { ...given, seed: 6 },
  ])
  expect(result.steps[0]?.rollouts).toMatchObject({ rollouts: 10, failed: 3, cutOff: 1 / 26 })
  expect(result.steps.map(({ sampledBy, version }) => [sampledBy, version])).toEqual([
    [0, 1],
    [1, 2],
  ])
})

it('tolerates what is one version old where that is allowed', async () => {
  const { batches, result } = await trained({ steps: 2, maxStaleness: 1 })
  expect(batches[1]).toEqual(batches[0])
  expect(result.steps[1]?.batch.stale).toBe(0)
})

it('counts an answer that an update interrupted for the version that began it', async () => {
  const interrupted = (reward: number): KnownAttempts[number][number] => ({
    calls: {
      solver: [
        call([10, 2], { 31: -0.3 }, { version: 0 }),
        call([10, 2, 31, 90], { 32: -0.4, 33: -0.5 }),
      ],
    },
    rewards: { solver: reward },
  })
  const known = { 0: [interrupted(0), interrupted(1)], 1: [interrupted(1), interrupted(0)] }
  const { result } = await trained({ steps: 2, attempts: 2, maxStaleness: 1 }, known)
  expect(result.steps.map(({ sampledBy }) => sampledBy)).toEqual([0, 0])
})

it.each([
  ['where advantages are not normalized', { normalizeAdvantages: false }],
  ['for Dr. GRPO', { update: { loss: 'dr_grpo' } }],
] as const)('leaves differences as they are %s', async (_, more) => {
  const { batches } = await trained(more)
  const own = (batch: readonly KnownSequence[] | undefined): number[] =>
    [...new Set(batch?.flatMap(({ advantages }) => advantages))].toSorted((a, b) => a - b)
  const steps = [-2 / 3, -1 / 3, 1 / 3, 2 / 3]
  const expected = [-0.5, -0.375, 0, 0.375, 0.5, ...steps].toSorted((a, b) => a - b)
  expect(own(batches[0])).toEqual(expected.map(rounded))
})

it('leaves out answers that were cut off, whose rewards count, where they are masked', async () => {
  const { batches, result } = await trained({ maskCutAnswers: true })
  const whole = [askerOfRun0, solverOfRun0, ...others].filter(({ run }) => run !== '0-3')
  expect(batches[0]).toEqual(roundedSequences(whole))
  expect(result.steps[0]?.batch).toMatchObject({ ...counts, sequences: 8, tokens: 16 })
})

it('first imitates what reached the threshold, and nothing else', async () => {
  const { learner, batches, result } = await trained({ warmStart: { steps: 1, threshold: 0.5 } })
  const imitated = batches[0]?.map(({ run, sampleId, ids }) => [run, sampleId, ids.at(-1)])
  expect(imitated).toEqual([
    ['0-0', 'asker', 22],
    ['0-1', 'solver', 31],
    ['0-1', 'solver', 34],
    ['0-3', 'solver', 36],
    ['1-0', 'solver', 43],
    ['1-1', 'asker', 27],
    ['1-1', 'solver', 45],
    ['1-2', 'asker', 28],
    ['1-2', 'solver', 47],
    ['1-3', 'asker', 29],
    ['1-3', 'solver', 49],
  ])
  for (const { advantages, mask } of batches[0] ?? []) expect(advantages).toEqual(mask)
  expect(learner.updates.map(({ batch: { loss } }) => loss)).toEqual([
    'cross_entropy',
    'policy_gradient',
  ])
  expect(result.steps.map(({ phase }) => phase)).toEqual(['warm_start', 'policy_gradient'])
})

it('evaluates rows that it never trains, and says which version answered', async () => {
  const known = { ...attempts, 2: attempts[1] ?? [], 3: attempts[1] ?? [] }
  const { learner, result, batches } = await trained(
    { steps: 3, heldOut: [knownRow(2), knownRow(3)], heldOutAttempts: 2, evaluateEvery: 2 },
    known,
  )
  for (const batch of batches) {
    expect([...new Set(batch.map(({ run }) => run[0]))]).toEqual(['0', '1'])
  }
  const evaluated = result.evaluations.map(({ run, step, version }) => [run, step, version])
  expect(evaluated).toEqual([
    ['before', 0, 0],
    ['after-step-0002', 2, 2],
    ['after-step-0003', 3, 3],
  ])
  for (const { run, version } of result.evaluations) {
    const { manifest, events } = await openRun(path.join(result.runs, run))
    expect(manifest.inputs.model.name).toBe(`known@${version}`)
    expect(manifest.rows.map(({ source_row: row }) => row)).toEqual([2, 3])
    expect(events.size).toBe(4)
    const versions = [...events.values()].flatMap((event) => event.versions ?? [])
    expect([...new Set(versions)]).toEqual([`policy-${version}`])
  }
  const asked = [...learner.asked].map(([version, rows]) => [
    version,
    [...rows].toSorted((a, b) => a - b),
  ])
  expect(asked).toEqual([
    [0, [0, 1, 2, 3]],
    [1, [0, 1]],
    [2, [0, 1, 2, 3]],
    [3, [2, 3]],
  ])
})
