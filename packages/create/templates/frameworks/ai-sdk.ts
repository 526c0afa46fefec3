import { OsmosisToolLoopAgent, rolloutModel, toModelMessages } from '@osmosis/ai-sdk'
import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { gateway, isStepCount, tool } from 'ai'
import { z } from 'zod'

import { lookUpPrice } from './prices.ts'

export { ShopGrader } from './grader.ts'

const lookUp = tool({
  description: 'The price of one piece of a product, in euros.',
  inputSchema: z.object({ product: z.string() }),
  execute: ({ product }) => lookUpPrice(product),
})

/** `concurrency: { maxConcurrent: 8 }` would run at most 8 rollouts concurrently. */
export const config = defineWorkflowConfig({ name: '__name__', rolloutLimits: { modelCalls: 20 } })

export function createAgent() {
  return new OsmosisToolLoopAgent({
    id: '__name__',
    // The policy in a rollout; outside, for users, the fallback.
    model: rolloutModel({ fallback: gateway('openai/gpt-4.1') }),
    instructions: 'Look up every price, then add up.',
    temperature: 1,
    topP: 1,
    maxOutputTokens: 1024,
    tools: { look_up_price: lookUp },
    stopWhen: isStepCount(8),
  })
}

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await createAgent().generate({ messages: toModelMessages(ctx.prompt), abortSignal: ctx.signal })
  }
}
