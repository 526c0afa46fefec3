import { ChatOpenAI } from '@langchain/openai'
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
    fallback: new ChatOpenAI({
      model: 'gpt-4.1',
      temperature: 1,
      maxTokens: 4096,
      apiKey: String(process.env['MODEL_API_KEY']),
      configuration: { baseURL: process.env['MODEL_BASE_URL'] },
    }),
  }),
  tools: [multiply],
  systemPrompt: 'Use the multiply tool when arithmetic is required.',
})

// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const messages = [{ role: 'user', content: 'What is 12 times 34?' }]
  const state = await calculator.invoke({ messages })
  console.log(state.messages.at(-1)?.text)
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await calculator.invoke({ messages: ctx.prompt }, { signal: ctx.signal })
  }
}
