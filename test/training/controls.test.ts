import { expect, it } from 'vitest'

import type { TrainedCall } from '../kit/trainers/index.ts'
import { handWritten } from './agents/hand-written.ts'
import { run, train } from './train.ts'
import { osmosis, miles } from './trainer-under-test.ts'
import { lightning } from './worked-trainers.ts'

it('learns nothing from the rewards of other rollouts', async () => {
  const trainer = osmosis('callbacks')
  // Its own rewards bring the policy to 0.65 in as many updates.
  const some = { ...run, iterations: 4, agent: handWritten, trainer }
  const curve = await train({ ...some, learnFrom: withShuffledRewards })
  expect(Math.max(...curve.map(({ reward }) => reward))).toBeLessThan(0.35)
})

/** Reassigns the rewards among all rollouts. */
function withShuffledRewards(calls: readonly TrainedCall[]): TrainedCall[] {
  const rewards = new Map(calls.map(({ rolloutId, reward }) => [rolloutId, reward]))
  const ids = [...rewards.keys()].toSorted()
  // A hash has nothing to do with groups and attempts.
  const strangers = ids.toSorted((a, b) => hash(a) - hash(b))
  const given = new Map(ids.map((id, at) => [id, rewards.get(strangers[at] ?? id) ?? 0]))
  return calls.map((call) => ({ ...call, reward: given.get(call.rolloutId) ?? 0 }))
}

function hash(text: string): number {
  return Array.from(text).reduce(
    (sum, letter) => Math.imul(sum ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0,
    0x811c9dc5,
  )
}

const failing = { ...run, agent: handWritten, failing: 0.4 }

// Agent Lightning would fill what a failure did not bring with 0. That it trains nothing of it is the link's doing.
it.each([
  ['Osmosis', osmosis('callbacks')],
  ['Agent Lightning', lightning],
])(
  'learns to use a tool with which two of five rollouts fail, when failures are left out: %s',
  { tags: 'slow' },
  async (_, trainer) => {
    const curve = await train({ ...failing, trainer })
    expect(curve.at(-1)?.toolUse).toBeGreaterThan(0.5)
  },
)

it.each([
  ['Osmosis, if it filled missing rewards', osmosis('callbacks', 0)],
  ['Miles, unless groups with a failure are dropped', miles],
])(
  'learns never to use the tool, when the same failures count as zeros: %s',
  { tags: 'nightly' },
  async (_, trainer) => {
    const curve = await train({ ...failing, trainer, failuresAs: 0 })
    expect(curve.at(-1)?.toolUse).toBeLessThan(0.1)
  },
)
