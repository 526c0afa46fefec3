import { ChatOpenAI } from '@langchain/openai'
import { createAgent, tool } from 'langchain'
import { z } from 'zod'

const multiply = tool(({ a, b }) => String(a * b), {
  name: 'multiply',
  description: 'Multiply two integers.',
  schema: z.object({ a: z.number().int(), b: z.number().int() }),
})

const calculator = createAgent({
  model: new ChatOpenAI({
    model: 'gpt-4.1',
    temperature: 1,
    maxTokens: 4096,
    apiKey: String(process.env['MODEL_API_KEY']),
    configuration: { baseURL: process.env['MODEL_BASE_URL'] },
  }),
  tools: [multiply],
  systemPrompt: 'Use the multiply tool when arithmetic is required.',
})

const messages = [{ role: 'user', content: 'What is 12 times 34?' }]
const state = await calculator.invoke({ messages })
console.log(state.messages.at(-1)?.text)
