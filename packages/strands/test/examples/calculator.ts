import {
  AgentWorkflow,
  type AgentWorkflowContext,
  Grader,
  type GraderContext,
  lastAssistantText,
} from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { tool } from '@strands-agents/sdk'
import { z } from 'zod'

const multiply = tool({
  name: 'multiply',
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  callback: ({ a, b }) => String(a * b),
})

export class MathAgentWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new OsmosisStrandsAgent({
      name: 'math-agent',
      model: new OsmosisRolloutModel({ params: { temperature: 1, max_tokens: 4096 } }),
      tools: [multiply],
      systemPrompt: 'You are a math assistant. Use the multiply tool.',
      messages: ctx.prompt,
    })
    await agent.invoke()
  }
}

export class MathGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [sampleId, sample] of ctx.samples) {
      ctx.setSampleReward(sampleId, numeric(lastAssistantText(sample), ctx.label))
    }
  }
}
