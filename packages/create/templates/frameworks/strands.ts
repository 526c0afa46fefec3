import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { tool } from '@strands-agents/sdk'
import { z } from 'zod'

import { lookUpPrice } from './prices.ts'

export { ShopGrader } from './grader.ts'

const lookUp = tool({
  name: 'look_up_price',
  description: 'The price of one piece of a product, in euros.',
  inputSchema: z.object({ product: z.string() }),
  callback: ({ product }) => lookUpPrice(product),
})

/** `concurrency: { maxConcurrent: 8 }` would run at most 8 rollouts concurrently. */
export const config = defineWorkflowConfig({ name: '__name__', rolloutLimits: { modelCalls: 20 } })

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new OsmosisStrandsAgent({
      name: '__name__',
      systemPrompt: 'Look up every price, then add up.',
      // The policy, whichever that is at the time.
      model: new OsmosisRolloutModel({ params: { temperature: 1, top_p: 1, max_tokens: 1024 } }),
      tools: [lookUp],
      messages: ctx.prompt,
    })
    await agent.invoke(undefined, { limits: { turns: 8 }, cancelSignal: ctx.signal })
  }
}
