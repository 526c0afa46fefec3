import { run, tool } from '@openai/agents'
import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'

import { lookUpPrice } from './prices.ts'

export { ShopGrader } from './grader.ts'

const lookUp = tool({
  name: 'look_up_price',
  description: 'The price of one piece of a product, in euros.',
  parameters: z.object({ product: z.string() }),
  execute: ({ product }) => lookUpPrice(product),
})

/** `concurrency: { maxConcurrent: 8 }` would run at most 8 rollouts concurrently. */
export const config = defineWorkflowConfig({ name: '__name__', rolloutLimits: { modelCalls: 20 } })

export function createAgent() {
  return new OsmosisAgent({
    name: '__name__',
    instructions: 'Look up every price, then add up.',
    // The policy in a rollout; outside, for users, the fallback.
    model: new OsmosisRolloutModel({ fallback: 'gpt-4.1' }),
    modelSettings: { temperature: 1, topP: 1, maxTokens: 1024 },
    tools: [lookUp],
  })
}

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const session = new OsmosisMemorySession({ name: '__name__' })
    await run(createAgent(), ctx.prompt, { session, maxTurns: 8, signal: ctx.signal })
  }
}
