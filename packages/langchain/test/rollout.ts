import { tool } from '@langchain/core/tools'
import type { RolloutSample } from '@osmosis/core'
import { z } from 'zod'

/** Adds two numbers; what else the policy passes is ignored. */
export const add = tool(async ({ a, b }) => `sum: ${a + b}`, {
  name: 'add',
  description: 'Adds two numbers.',
  schema: z.looseObject({ a: z.number(), b: z.number() }),
})

export const go = [{ role: 'user', content: 'go' }]

/** What the messages of a sample are, one word each. */
export function rolesOf({ messages }: Pick<RolloutSample, 'messages'>): string[] {
  return (messages as { role: string }[]).map(({ role }) => role)
}
