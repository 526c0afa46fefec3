import { run, tool } from '@openai/agents'
import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a * b),
})

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new OsmosisAgent({
      name: 'multiply-agent',
      instructions: 'Use the multiply tool when arithmetic is required.',
      model: new OsmosisRolloutModel(),
      modelSettings: { temperature: 1, topP: 1, maxTokens: 4096 },
      tools: [multiply],
    })
    const session = new OsmosisMemorySession({ name: 'multiply-agent' })
    await run(agent, ctx.prompt, { session, maxTurns: 8, signal: ctx.signal })
  }
}

export class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [sampleId, sample] of ctx.samples) {
      const [, answer = ''] = /####\s*([-+]?\d*\.?\d+)/.exec(lastAssistantText(sample)) ?? []
      const error = Math.abs(parseFloat(answer) - parseFloat(ctx.requireLabel()))
      ctx.setSampleReward(sampleId, error < 0.01 ? 1 : 0)
    }
  }
}
