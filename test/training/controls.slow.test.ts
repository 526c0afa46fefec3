import { expect, it } from 'vitest'

import { handWritten } from './agents/hand-written.ts'
import { run, train } from './train.ts'
import { miles, osmosis } from './trainer-under-test.ts'
import { lightning } from './worked-trainers.ts'

const failing = { ...run, agent: handWritten, failing: 0.4 }

// Agent Lightning would fill what a failure did not bring with 0. That it trains nothing of it is the link's doing.
it.each([
  ['Osmosis', osmosis('callbacks')],
  ['Agent Lightning', lightning],
])(
  'learns to use a tool with which two of five rollouts fail, when failures are left out: %s',
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
  async (_, trainer) => {
    const curve = await train({ ...failing, trainer, failuresAs: 0 })
    expect(curve.at(-1)?.toolUse).toBeLessThan(0.1)
  },
)
