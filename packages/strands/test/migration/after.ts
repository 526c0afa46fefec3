import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { BedrockModel, tool } from '@strands-agents/sdk'
import { z } from 'zod'

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  callback: ({ a, b }) => String(a * b),
})

const fallback = new BedrockModel({
  modelId: 'openai.gpt-oss-120b-1:0',
  temperature: 1,
  maxTokens: 4096,
})
const model = new OsmosisRolloutModel({
  params: { temperature: 1, max_tokens: 4096 },
  fallback,
})

function createAgent() {
  return new OsmosisStrandsAgent({
    name: 'calculator',
    systemPrompt: 'Use the multiply tool when arithmetic is required.',
    model,
    tools: [multiply],
    printer: false,
  })
}

// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const result = await createAgent().invoke('What is 12 times 34?')
  console.log(result.toString())
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await createAgent().invoke(ctx.prompt)
  }
}
