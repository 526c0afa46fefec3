import { run, tool } from '@openai/agents'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two integers.',
  parameters: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => String(a * b),
})

function createAgent() {
  return new OsmosisAgent({
    name: 'calculator',
    instructions: 'Use the multiply tool when arithmetic is required.',
    model: new OsmosisRolloutModel(),
    modelSettings: { temperature: 1, maxTokens: 4096 },
    tools: [multiply],
  })
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const session = new OsmosisMemorySession({ name: 'main' })
    await run(createAgent(), ctx.prompt, { session, signal: ctx.signal })
  }
}
