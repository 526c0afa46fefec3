import { describe, expect, it } from 'vitest'

import { aiSdk } from './agents/ai-sdk.ts'
import { handWritten } from './agents/hand-written.ts'
import { openaiAgents } from './agents/openai-agents.ts'
import { strands } from './agents/strands.ts'
import { train, type Iteration } from './train.ts'
import { miles, osmosis } from './trainer-under-test.ts'
import { lightning, trinityServe } from './worked-trainers.ts'

const goal = 0.7

describe('a policy learns', () => {
  it.each([1, 2, 3])('to open the door, with seed %i', async (seed) => {
    const trainer = osmosis('callbacks')
    const curve = await train({ seed, agent: handWritten, trainer, iterations: 25, until: goal })
    expect(curve[0]?.reward).toBeLessThan(0.35)
    expect(curve.at(-1)?.reward).toBeGreaterThanOrEqual(goal)
  })
})

describe('whatever is between the policy and the trainer,', () => {
  const short = { seed: 3, iterations: 6, until: goal }
  let first: Promise<Iteration[]> | undefined

  it.each([
    ['the OpenAI Agents SDK', 'callbacks', openaiAgents, osmosis('callbacks')],
    ['Strands Agents', 'callbacks', strands, osmosis('callbacks')],
    ['the AI SDK', 'callbacks', aiSdk, osmosis('callbacks')],
    ['a hand-written loop', 'leases', handWritten, osmosis('leases')],
    ['the OpenAI Agents SDK', 'Agent Lightning', openaiAgents, lightning],
    ['Strands Agents', 'Trinity', strands, trinityServe],
    ['the AI SDK', 'Miles', aiSdk, miles],
  ])('%s and %s teach exactly the same', async (_, _trainer, agent, trainer) => {
    first ??= train({ ...short, agent: handWritten, trainer: osmosis('callbacks') })
    const curve = await train({ ...short, agent, trainer })
    expect(curve.at(-1)?.reward).toBeGreaterThanOrEqual(goal)
    expect(curve).toEqual(await first)
  })
})
