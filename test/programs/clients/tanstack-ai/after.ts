import { AgentWorkflow, requireRolloutContext, type AgentWorkflowContext } from '@osmosis/core'
import { chat, toolDefinition } from '@tanstack/ai'
import { openaiCompatibleText } from '@tanstack/ai-openai/compatible'
import { z } from 'zod'

const multiply = toolDefinition({
  name: 'multiply',
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
}).server(async ({ a, b }) => String(a * b))

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const policy = requireRolloutContext('The agent').registerPolicySample('calculator')
    const adapter = openaiCompatibleText('policy', {
      baseURL: policy.baseUrl,
      fetch: policy.fetch,
      apiKey: 'unused',
      maxRetries: 0,
    })
    const messages = ctx.prompt.map(({ content }) => ({
      role: 'user' as const,
      content: String(content),
    }))
    await chat({ adapter, messages, tools: [multiply], stream: false })
  }
}
