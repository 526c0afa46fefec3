import { beforeEach, expect, it, vi } from 'vitest'

import { failWhereAnswersBreakOff, haveRightConversations } from './properties.ts'

// any-server.nightly.test.ts draws more.
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
