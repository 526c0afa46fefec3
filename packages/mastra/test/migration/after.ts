import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { rolloutModel, toModelMessages } from '@osmosis/mastra'
import { z } from 'zod'

const multiply = createTool({
  id: 'multiply',
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => String(a * b),
})

const calculator = new Agent({
  id: 'calculator',
  name: 'Calculator',
  instructions: 'Use the multiply tool when arithmetic is required.',
  model: rolloutModel('calculator'),
  tools: { multiply },
})

const settings = { maxSteps: 8, modelSettings: { temperature: 1, maxOutputTokens: 4096 } }

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const messages = toModelMessages(ctx.prompt)
    await calculator.generate(messages, { ...settings, abortSignal: ctx.signal })
  }
}
