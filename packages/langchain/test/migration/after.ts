import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisChatModel } from '@osmosis/langchain'
import { createAgent, tool } from 'langchain'
import { z } from 'zod'

const multiply = tool(({ a, b }) => String(a * b), {
  name: 'multiply',
  description: 'Multiply two integers.',
  schema: z.object({ a: z.number().int(), b: z.number().int() }),
})

const calculator = createAgent({
  model: new OsmosisChatModel({
    name: 'calculator',
    temperature: 1,
    maxTokens: 4096,
  }),
  tools: [multiply],
  systemPrompt: 'Use the multiply tool when arithmetic is required.',
})

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await calculator.invoke({ messages: ctx.prompt }, { signal: ctx.signal })
  }
}
