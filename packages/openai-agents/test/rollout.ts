import { type AgentInputItem, type AgentOptions, tool, type Tool } from '@openai/agents'
import type { RolloutSample } from '@osmosis/core'
import { OsmosisAgent, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'

/** An agent of the policy, inside the current rollout. */
export function policyAgent(config: Partial<AgentOptions> = {}): OsmosisAgent {
  return new OsmosisAgent({ name: 'agent', model: new OsmosisRolloutModel(), ...config })
}

/** Adds two numbers. */
export function addTool(): Tool {
  return tool({
    name: 'add',
    description: 'Adds two numbers.',
    parameters: z.object({ a: z.number(), b: z.number() }),
    execute: async ({ a, b }) => `sum: ${a + b}`,
  })
}

/** What the items of a sample are, one word each. */
export function kindsOf({ messages }: Pick<RolloutSample, 'messages'>): string[] {
  return (messages as AgentInputItem[]).map((item) =>
    'role' in item ? item.role : (item.type ?? 'unknown'),
  )
}
