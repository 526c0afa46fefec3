import { FunctionTool, InMemoryRunner, LlmAgent } from '@google/adk'
import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisLlm, toNewMessage } from '@osmosis/google-adk'
import { z } from 'zod'

import { lookUpPrice } from './prices.ts'

export { ShopGrader } from './grader.ts'

const lookUp = new FunctionTool({
  name: 'look_up_price',
  description: 'The price of one piece of a product, in euros.',
  parameters: z.object({ product: z.string() }),
  execute: ({ product }) => lookUpPrice(product),
})

/** `concurrency: { maxConcurrent: 8 }` would run at most 8 rollouts concurrently. */
export const config = defineWorkflowConfig({ name: '__name__', rolloutLimits: { modelCalls: 20 } })

export const agent = new LlmAgent({
  name: 'shop',
  instruction: 'Look up every price, then add up.',
  // The policy in a rollout; outside, for users, the fallback.
  model: new OsmosisLlm({ name: '__name__', fallback: 'gemini-2.5-flash' }),
  generateContentConfig: { temperature: 1, topP: 1, maxOutputTokens: 1024 },
  tools: [lookUp],
})

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const runner = new InMemoryRunner({ agent })
    const newMessage = toNewMessage(ctx.prompt)
    const runConfig = { maxLlmCalls: 8 }
    for await (const _ of runner.runEphemeral({ userId: 'user', newMessage, runConfig }));
  }
}
