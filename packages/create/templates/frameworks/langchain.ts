import { ChatOpenAI } from '@langchain/openai'
import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisChatModel } from '@osmosis/langchain'
import { createAgent, tool } from 'langchain'
import { z } from 'zod'

import { lookUpPrice } from './prices.ts'

export { ShopGrader } from './grader.ts'

const lookUp = tool(({ product }) => lookUpPrice(product), {
  name: 'look_up_price',
  description: 'The price of one piece of a product, in euros.',
  schema: z.object({ product: z.string() }),
})

/** `concurrency: { maxConcurrent: 8 }` would run at most 8 rollouts concurrently. */
export const config = defineWorkflowConfig({ name: '__name__', rolloutLimits: { modelCalls: 20 } })

export const agent = createAgent({
  // The policy in a rollout; outside, for users, the fallback.
  model: new OsmosisChatModel({
    name: '__name__',
    temperature: 1,
    topP: 1,
    maxTokens: 1024,
    fallback: new ChatOpenAI({ model: 'gpt-4.1' }),
  }),
  systemPrompt: 'Look up every price, then add up.',
  tools: [lookUp],
})

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await agent.invoke({ messages: ctx.prompt }, { signal: ctx.signal, recursionLimit: 16 })
  }
}
