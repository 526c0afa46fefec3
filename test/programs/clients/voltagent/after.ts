import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { AgentWorkflow, requireRolloutContext, type AgentWorkflowContext } from '@osmosis/core'
import { Agent, createTool } from '@voltagent/core'
import { z } from 'zod'

const multiply = createTool({
  name: 'multiply',
  description: 'Multiply two integers.',
  parameters: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => String(a * b),
})

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('The agent').registerPolicySample('calculator')
    const { baseUrl: baseURL, fetch } = policy
    const provider = createOpenAICompatible({ name: 'policy', baseURL, fetch })
    const agent = new Agent({
      name: 'calculator',
      instructions: 'Use the multiply tool when arithmetic is required.',
      model: provider('policy'),
      tools: [multiply],
      maxRetries: 0,
    })
    const prompt = ctx.prompt.map(({ content }) => String(content)).join('\n')
    await agent.generateText(prompt, { abortSignal: ctx.signal })
  }
}
