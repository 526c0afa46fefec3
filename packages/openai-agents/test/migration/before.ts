import { Agent, run, setOpenAIAPI, tool } from '@openai/agents'
import { z } from 'zod'

setOpenAIAPI('chat_completions')

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two integers.',
  parameters: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => String(a * b),
})

function createAgent() {
  return new Agent({
    name: 'calculator',
    instructions: 'Use the multiply tool when arithmetic is required.',
    model: 'gpt-4.1',
    modelSettings: { temperature: 1, maxTokens: 4096 },
    tools: [multiply],
  })
}

const result = await run(createAgent(), 'What is 12 times 34?')
console.log(result.finalOutput)
