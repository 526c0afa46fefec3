import { run, tool } from '@openai/agents'
import {
  AgentWorkflow,
  type AgentWorkflowContext,
  Grader,
  type GraderContext,
  lastAssistantText,
} from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two integers.',
  parameters: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => String(a * b),
})

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new OsmosisAgent({
      name: 'multiply-agent',
      instructions: 'Use the multiply tool when arithmetic is required.',
      model: new OsmosisRolloutModel(),
      modelSettings: { temperature: 1, maxTokens: 4096 },
      tools: [multiply],
    })
    const session = new OsmosisMemorySession({ name: 'multiply-agent' })
    await run(agent, ctx.prompt, { session, signal: ctx.signal })
  }
}

export class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [sampleId, sample] of ctx.samples) {
      ctx.setSampleReward(sampleId, numeric(lastAssistantText(sample), ctx.label))
    }
  }
}
