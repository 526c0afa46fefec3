import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { rolloutModel, toModelMessages } from '@osmosis/mastra'
import { z } from 'zod'

import { lookUpPrice } from './prices.ts'

export { ShopGrader } from './grader.ts'

const lookUp = createTool({
  id: 'look_up_price',
  description: 'The price of one piece of a product, in euros.',
  inputSchema: z.object({ product: z.string() }),
  execute: async ({ product }) => lookUpPrice(product),
})

export const agent = new Agent({
  id: '__name__',
  name: '__name__',
  instructions: 'Look up every price, then add up.',
  // The policy in a rollout; outside, for users, the fallback.
  model: rolloutModel({ name: '__name__', fallback: 'openai/gpt-4.1' }),
  tools: { look_up_price: lookUp },
})

/** `concurrency: { maxConcurrent: 8 }` would run at most 8 rollouts concurrently. */
export const config = defineWorkflowConfig({ name: '__name__', rolloutLimits: { modelCalls: 20 } })

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await agent.generate(toModelMessages(ctx.prompt), {
      maxSteps: 8,
      modelSettings: { temperature: 1, topP: 1, maxOutputTokens: 1024 },
      abortSignal: ctx.signal,
    })
  }
}
