import { run, setOpenAIAPI, tool } from '@openai/agents'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'

setOpenAIAPI('chat_completions')

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
    model: new OsmosisRolloutModel({ fallback: 'gpt-4.1' }),
    modelSettings: { temperature: 1, maxTokens: 4096 },
    tools: [multiply],
  })
}

// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const result = await run(createAgent(), 'What is 12 times 34?')
  console.log(result.finalOutput)
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const session = new OsmosisMemorySession({ name: 'main' })
    await run(createAgent(), ctx.prompt, { session, signal: ctx.signal })
  }
}
