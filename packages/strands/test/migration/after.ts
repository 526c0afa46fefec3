import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { tool } from '@strands-agents/sdk'
import { z } from 'zod'

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  callback: ({ a, b }) => String(a * b),
})

const model = new OsmosisRolloutModel({
  params: { temperature: 1, max_tokens: 4096 },
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

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await createAgent().invoke(ctx.prompt)
  }
}
