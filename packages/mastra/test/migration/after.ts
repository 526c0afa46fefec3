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
  model: rolloutModel({
    name: 'calculator',
    fallback: {
      id: 'openai/gpt-4.1',
      url: String(process.env['MODEL_BASE_URL']),
      apiKey: String(process.env['MODEL_API_KEY']),
    },
  }),
  tools: { multiply },
})

const settings = { maxSteps: 8, modelSettings: { temperature: 1, maxOutputTokens: 4096 } }
// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const { text } = await calculator.generate('What is 12 times 34?', settings)
  console.log(text)
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const messages = toModelMessages(ctx.prompt)
    await calculator.generate(messages, { ...settings, abortSignal: ctx.signal })
  }
}
