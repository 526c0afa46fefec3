import { beforeEach, expect, it, vi } from 'vitest'

import { failWhereAnswersBreakOff, haveRightConversations } from './properties.ts'

const seed = Math.trunc(Math.random() * 2 ** 31)
const draws = { numRuns: 10_000, seed }
const timeout = 3_600_000

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  process.stdout.write(`Draws of servers with seed ${seed}\n`)
})

it('conversations are the same over 10,000 servers', { timeout }, async () => {
  await expect(haveRightConversations(draws)).resolves.toBeUndefined()
})

it('rollouts fail over 10,000 servers whose answers break off', { timeout }, async () => {
  await expect(failWhereAnswersBreakOff(draws)).resolves.toBeUndefined()
})
