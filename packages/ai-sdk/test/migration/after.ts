import { OsmosisToolLoopAgent, rolloutModel, toModelMessages } from '@osmosis/ai-sdk'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { isStepCount, tool } from 'ai'
import { z } from 'zod'

const multiply = tool({
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: ({ a, b }) => String(a * b),
})

function createAgent() {
  return new OsmosisToolLoopAgent({
    id: 'calculator',
    instructions: 'Use the multiply tool when arithmetic is required.',
    model: rolloutModel(),
    temperature: 1,
    maxOutputTokens: 4096,
    tools: { multiply },
    stopWhen: isStepCount(8),
  })
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const messages = toModelMessages(ctx.prompt)
    await createAgent().generate({ messages, abortSignal: ctx.signal })
  }
}
