import { Agent, type AgentTool } from '@earendil-works/pi-agent-core'
import { createModels } from '@earendil-works/pi-ai'
import { openaiProvider } from '@earendil-works/pi-ai/providers/openai'
import { AgentWorkflow, defineWorkflowConfig, type AgentWorkflowContext } from '@osmosis/core'
import { rolloutStreamFn, toAgentMessages } from '@osmosis/pi'
import { type Static, Type } from 'typebox'

import { lookUpPrice } from './prices.ts'

export { ShopGrader } from './grader.ts'

const Question = Type.Object({ product: Type.String() })

const lookUp: AgentTool<typeof Question> = {
  name: 'look_up_price',
  label: 'Look up a price',
  description: 'The price of one piece of a product, in euros.',
  parameters: Question,
  execute: async (_id, { product }: Static<typeof Question>) => ({
    content: [{ type: 'text', text: lookUpPrice(product) }],
    details: {},
  }),
}

/** The model for users, which needs OPENAI_API_KEY; a rollout takes the policy. */
const models = createModels()
models.setProvider(openaiProvider())
const model = models.getModel('openai', 'gpt-4.1')

const params = { temperature: 1, top_p: 1, max_tokens: 1024 }

/** `concurrency: { maxConcurrent: 8 }` would run at most 8 rollouts concurrently. */
export const config = defineWorkflowConfig({ name: '__name__', rolloutLimits: { modelCalls: 20 } })

export function createAgent() {
  return new Agent({
    initialState: {
      systemPrompt: 'Look up every price, then add up.',
      tools: [lookUp],
      ...(model && { model }),
    },
    streamFn: rolloutStreamFn({
      name: '__name__',
      params,
      fallback: (...call) => models.streamSimple(...call),
    }),
  })
}

export class ShopWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = createAgent()
    ctx.signal.addEventListener('abort', () => agent.abort())
    await agent.prompt(toAgentMessages(ctx.prompt))
  }
}
