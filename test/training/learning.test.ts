import { describe, expect, it } from 'vitest'

import { aiSdk } from './agents/ai-sdk.ts'
import { handWritten } from './agents/hand-written.ts'
import { openaiAgents } from './agents/openai-agents.ts'
import { strands } from './agents/strands.ts'
import { train, type Iteration } from './train.ts'
import { osmosis } from './trainer-under-test.ts'

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
  const short = { seed: 3, iterations: 8 }
  let first: Promise<Iteration[]> | undefined

  it.each([
    ['OpenAI Agents', 'callbacks', openaiAgents],
    ['Strands', 'callbacks', strands],
    ['AI SDK', 'callbacks', aiSdk],
    ['a hand-written loop', 'leases', handWritten],
  ] as const)('%s and %s teach exactly the same', async (_, rewards, agent) => {
    first ??= train({ ...short, agent: handWritten, trainer: osmosis('callbacks') })
    const curve = await train({ ...short, agent, trainer: osmosis(rewards) })
    expect(curve.at(-1)?.reward).toBeGreaterThanOrEqual(goal)
    expect(curve).toEqual(await first)
  })
})
