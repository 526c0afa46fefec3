import { train } from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'
import { knownRow, KnownLearner } from './known-rollouts.ts'
import { quickRollouts, type QuickRollout } from './quick-rollouts.ts'

/** The answers of the batch that two attempts make, with the advantage of each: their ids are 10 and 20, 11 and 21. */
async function trainedOn(
  more: (attempt: number) => Partial<QuickRollout>,
): Promise<(readonly [id: number, advantage: number])[]> {
  const learner = new KnownLearner({})
  await train({
    folder: await temporaryFolder(),
    learner,
    rollouts: quickRollouts(({ attempt }) => {
      const [first, second] = [10 + attempt, 20 + attempt]
      const calls = [
        { promptTokenIds: [1], completionTokenIds: [first] },
        { promptTokenIds: [1, first, 2], completionTokenIds: [second] },
      ]
      return { reward: attempt, calls, ...more(attempt) }
    }),
    rows: [knownRow(0)],
    steps: 1,
    attempts: 2,
    normalizeAdvantages: false,
  })
  const sequences = learner.updates.flatMap(({ batch }) => batch.sequences)
  return sequences.flatMap(({ ids, mask, advantages }) =>
    ids.flatMap((id, at) => (mask[at] === 1 ? [[id, advantages[at] ?? 0] as const] : [])),
  )
}

/** The rewards are 0 and 1. */
const byReward = [
  [10, -0.5],
  [20, -0.5],
  [11, 0.5],
  [21, 0.5],
]

it.each([
  ['as the sample', 'main', ['main'], byReward],
  ['otherwise than the sample', 'another', ['main'], byReward],
  ['as one of two samples', 'main', ['main', 'judge'], byReward],
  ['otherwise than both of two samples', 'another', ['main', 'judge'], []],
] as const)(
  'a lone conversation that is called %s is trained for it',
  async (_, conversation, sampleIds, expected) => {
    expect(await trainedOn(() => ({ conversation, sampleIds }))).toEqual(expected)
  },
)

/** The first answer of each attempt gets 0 or 4, and the second one 1: the mean is 1.5. */
const bySteps = [
  [10, -1.5 - 0.5],
  [20, -0.5],
  [11, 2.5 - 0.5],
  [21, -0.5],
]

it.each(['main', 'another'])(
  'its step rewards are those of the lone sample, also when that is called %s',
  async (conversation) => {
    const trained = await trainedOn((attempt) => ({
      reward: 1,
      conversation,
      stepRewards: { main: [4 * attempt, 1] },
    }))
    expect(trained).toEqual(bySteps)
  },
)
