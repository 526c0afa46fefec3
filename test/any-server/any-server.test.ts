import { beforeEach, expect, it, vi } from 'vitest'

import { failWhereAnswersBreakOff, haveRightConversations } from './properties.ts'

const draws = { numRuns: 300 }

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

it('a conversation is the same, whatever the server of the policy makes of its answers', async () => {
  await expect(haveRightConversations(draws)).resolves.toBeUndefined()
})

it('a rollout fails, wherever and however an answer breaks off', async () => {
  await expect(failWhereAnswersBreakOff(draws)).resolves.toBeUndefined()
})

const nightly = { tags: 'nightly', timeout: 3_600_000 }

it('conversations are the same over 10,000 servers', nightly, async () => {
  await expect(haveRightConversations(manyDraws())).resolves.toBeUndefined()
})

it('rollouts fail over 10,000 servers whose answers break off', nightly, async () => {
  await expect(failWhereAnswersBreakOff(manyDraws())).resolves.toBeUndefined()
})

function manyDraws(): { numRuns: number; seed: number } {
  const seed = Math.trunc(Math.random() * 2 ** 31)
  process.stdout.write(`Draws of servers with seed ${seed}\n`)
  return { numRuns: 10_000, seed }
}
