import { expect, it } from 'vitest'

import { handWritten } from './agents/hand-written.ts'
import { openaiAgents } from './agents/openai-agents.ts'
import { goal, run, train } from './train.ts'
import { osmosis } from './trainer-under-test.ts'
import { lightning } from './worked-trainers.ts'

it('a policy learns to open the door, and another framework and trainer give exactly the same training', async () => {
  const curve = await train({
    ...run,
    agent: handWritten,
    trainer: osmosis('callbacks'),
    until: goal,
  })
  expect(curve[0]?.reward).toBeLessThan(0.35)
  expect(curve.at(-1)?.reward).toBeGreaterThanOrEqual(goal)
  const other = await train({ ...run, agent: openaiAgents, trainer: lightning, until: goal })
  expect(other).toEqual(curve)
})
