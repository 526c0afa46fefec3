import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { BedrockModel, tool } from '@strands-agents/sdk'
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

/** The policy in a rollout; outside, for users, the fallback. */
const model = new OsmosisRolloutModel({
  params: { temperature: 1, top_p: 1, max_tokens: 1024 },
  fallback: new BedrockModel({ modelId: 'openai.gpt-oss-120b-1:0' }),
})

export function createAgent() {
  return new OsmosisStrandsAgent({
    name: '__name__',
    systemPrompt: 'Look up every price, then add up.',
    model,
    tools: [lookUp],
  })
}

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await createAgent().invoke(ctx.prompt, { limits: { turns: 8 }, cancelSignal: ctx.signal })
  }
}
