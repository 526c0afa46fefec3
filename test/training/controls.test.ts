import type { TrainedCall } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { handWritten } from './agents/hand-written.ts'
import { train } from './train.ts'
import { miles, osmosis } from './trainer-under-test.ts'
import { lightning } from './worked-trainers.ts'

const run = { seed: 3, agent: handWritten, iterations: 15 }

it('learns nothing from the rewards of other rollouts', async () => {
  const trainer = osmosis('callbacks')
  const curve = await train({ ...run, trainer, teach: withShuffledRewards })
  expect(Math.max(...curve.map(({ reward }) => reward))).toBeLessThan(0.35)
})

// Agent Lightning would fill what a failure did not bring with 0. That it trains nothing of it is the link's doing.
it.each([
  ['Osmosis', osmosis('callbacks')],
  ['Agent Lightning', lightning],
])(
  'learns to use a tool with which two of five rollouts fail, when failures are left out: %s',
  async (_, trainer) => {
    const curve = await train({ ...run, trainer, failing: 0.4 })
    expect(curve.at(-1)?.toolUse).toBeGreaterThan(0.5)
  },
)

it.each([
  ['Osmosis, if it filled missing rewards', osmosis('callbacks', 0)],
  ['Miles, unless groups with a failure are dropped', miles],
])(
  'learns never to use the tool, when the same failures count as zeros: %s',
  async (_, trainer) => {
    const curve = await train({ ...run, trainer, failing: 0.4, failuresAs: 0 })
    expect(curve.at(-1)?.toolUse).toBeLessThan(0.1)
  },
)

/** Deals the rewards of all rollouts out anew. */
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
