import { expect, it, describe } from 'vitest'

import { aiSdk } from './agents/ai-sdk.ts'
import { googleAdk } from './agents/google-adk.ts'
import { handWritten } from './agents/hand-written.ts'
import { langchain } from './agents/langchain.ts'
import { mastra } from './agents/mastra.ts'
import { openaiAgents } from './agents/openai-agents.ts'
import { pi } from './agents/pi.ts'
import { strands } from './agents/strands.ts'
import { goal, run, train, type Iteration } from './train.ts'
import { osmosis, miles } from './trainer-under-test.ts'
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
  // Versions of a policy that differ at all differ after the first update.
  const some = { ...run, iterations: 3 }
  const other = await train({ ...some, agent: openaiAgents, trainer: lightning })
  expect(other).toEqual(curve.slice(0, 4))
})

it('a policy learns to open the door, with another seed', { tags: 'nightly' }, async () => {
  const trainer = osmosis('callbacks')
  const settings = { seed: 3, attempts: 16, iterations: 8, until: goal }
  const curve = await train({ ...settings, agent: handWritten, trainer })
  expect(curve[0]?.reward).toBeLessThan(0.35)
  expect(curve.at(-1)?.reward).toBeGreaterThanOrEqual(goal)
})

describe(
  'with everything between the policy and the trainer exchanged,',
  { tags: 'nightly' },
  () => {
    let first: Promise<Iteration[]> | undefined

    it.each([
      ['the OpenAI Agents SDK', 'callbacks', openaiAgents, osmosis('callbacks')],
      ['Strands Agents', 'callbacks', strands, osmosis('callbacks')],
      ['the AI SDK', 'callbacks', aiSdk, osmosis('callbacks')],
      ['Google ADK', 'callbacks', googleAdk, osmosis('callbacks')],
      ['LangChain', 'callbacks', langchain, osmosis('callbacks')],
      ['Mastra', 'callbacks', mastra, osmosis('callbacks')],
      ['Pi', 'callbacks', pi, osmosis('callbacks')],
      ['a hand-written loop', 'leases', handWritten, osmosis('leases')],
      ['the AI SDK', 'Agent Lightning', aiSdk, lightning],
      ['the OpenAI Agents SDK', 'Miles', openaiAgents, miles],
    ])('%s and %s give exactly the same training', async (_, _trainer, agent, trainer) => {
      first ??= train({ ...run, until: goal, agent: handWritten, trainer: osmosis('callbacks') })
      const curve = await train({ ...run, until: goal, agent, trainer })
      expect(curve.at(-1)?.reward).toBeGreaterThanOrEqual(goal)
      expect(curve).toEqual(await first)
    })
  },
)
