import { OsmosisToolLoopAgent, rolloutModel, toModelMessages } from '@osmosis/ai-sdk'
import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { isStepCount, tool } from 'ai'
import { z } from 'zod'

const multiply = tool({
  description: 'Multiply two numbers.',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a * b),
})

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new OsmosisToolLoopAgent({
      id: 'multiply-agent',
      model: rolloutModel(),
      instructions: 'Use the multiply tool when arithmetic is required.',
      temperature: 1,
      topP: 1,
      maxOutputTokens: 4096,
      tools: { multiply },
      stopWhen: isStepCount(8),
    })
    await agent.generate({ messages: toModelMessages(ctx.prompt), abortSignal: ctx.signal })
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
