import { OsmosisToolLoopAgent, rolloutModel, toModelMessages } from '@osmosis/ai-sdk'
import {
  AgentWorkflow,
  type AgentWorkflowContext,
  Grader,
  type GraderContext,
  lastAssistantText,
} from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'
import { tool } from 'ai'
import { z } from 'zod'

const multiply = tool({
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: ({ a, b }) => String(a * b),
})

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new OsmosisToolLoopAgent({
      id: 'multiply-agent',
      instructions: 'Use the multiply tool when arithmetic is required.',
      model: rolloutModel({ temperature: 1, maxOutputTokens: 4096 }),
      tools: { multiply },
    })
    await agent.generate({ messages: toModelMessages(ctx.prompt), abortSignal: ctx.signal })
  }
}

export class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [sampleId, sample] of ctx.samples) {
      ctx.setSampleReward(sampleId, numeric(lastAssistantText(sample), ctx.label))
    }
  }
}
