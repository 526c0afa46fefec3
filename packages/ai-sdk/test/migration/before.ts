import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { isStepCount, tool, ToolLoopAgent } from 'ai'
import { z } from 'zod'

const provider = createOpenAICompatible({
  name: 'provider',
  baseURL: String(process.env['MODEL_BASE_URL']),
})

const multiply = tool({
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: ({ a, b }) => String(a * b),
})

function createAgent() {
  return new ToolLoopAgent({
    id: 'calculator',
    instructions: 'Use the multiply tool when arithmetic is required.',
    model: provider('gpt-4.1'),
    temperature: 1,
    maxOutputTokens: 4096,
    tools: { multiply },
    stopWhen: isStepCount(8),
  })
}

const result = await createAgent().generate({ prompt: 'What is 12 times 34?' })
console.log(result.text)
