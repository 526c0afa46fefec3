import {
  OsmosisRolloutModel,
  OsmosisStrandsAgent,
  type OsmosisStrandsAgentConfig,
} from '@osmosis/strands'
import { type FunctionTool, type InvokableTool, tool } from '@strands-agents/sdk'
import { z } from 'zod'

/** An agent of the policy, inside the current rollout. */
export function policyAgent(config: OsmosisStrandsAgentConfig = {}): OsmosisStrandsAgent {
  return new OsmosisStrandsAgent({ name: 'main', model: new OsmosisRolloutModel(), ...config })
}

/** Adds two numbers. */
export function addTool(): InvokableTool<{ a: number; b: number }, string> | FunctionTool {
  return tool({
    name: 'add',
    description: 'Adds two numbers.',
    inputSchema: z.looseObject({ a: z.number(), b: z.number() }),
    callback: ({ a, b }) => `sum: ${a + b}`,
  })
}

/** What the messages of a conversation are, e.g. `user:text`. */
export function kindsOf(messages: readonly unknown[]): string[] {
  return (messages as { role: string; content: object[] }[]).map(
    ({ role, content }) => `${role}:${content.flatMap((block) => Object.keys(block)).join('+')}`,
  )
}
