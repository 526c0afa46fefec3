import type { TrainedCall } from '../kit/trainers/index.ts'
import { expect, it } from 'vitest'

import { handWritten } from './agents/hand-written.ts'
import { run, train } from './train.ts'
import { osmosis } from './trainer-under-test.ts'

it('learns nothing from the rewards of other rollouts', async () => {
  const trainer = osmosis('callbacks')
  const curve = await train({ ...run, agent: handWritten, trainer, learnFrom: withShuffledRewards })
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
