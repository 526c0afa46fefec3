import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { tool } from '@strands-agents/sdk'
import { z } from 'zod'

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two numbers.',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  callback: ({ a, b }) => String(a * b),
})

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new OsmosisStrandsAgent({
      name: 'multiply-agent',
      systemPrompt: 'Use the multiply tool when arithmetic is required.',
      model: new OsmosisRolloutModel({ params: { temperature: 1, top_p: 1, max_tokens: 4096 } }),
      tools: [multiply],
      messages: ctx.prompt,
    })
    await agent.invoke(undefined, { limits: { turns: 8 }, cancelSignal: ctx.signal })
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
