import { Agent, BedrockModel, tool } from '@strands-agents/sdk'
import { z } from 'zod'

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  callback: ({ a, b }) => String(a * b),
})

const model = new BedrockModel({
  modelId: 'openai.gpt-oss-120b-1:0',
  temperature: 1,
  maxTokens: 4096,
})

function createAgent() {
  return new Agent({
    name: 'calculator',
    systemPrompt: 'Use the multiply tool when arithmetic is required.',
    model,
    tools: [multiply],
    printer: false,
  })
}

const result = await createAgent().invoke('What is 12 times 34?')
console.log(result.toString())
