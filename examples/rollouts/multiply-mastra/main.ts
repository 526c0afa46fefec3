import { Agent } from '@mastra/core/agent'
import { Mastra } from '@mastra/core/mastra'
import { createTool } from '@mastra/core/tools'
import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { rolloutModel, toModelMessages } from '@osmosis/mastra'
import { z } from 'zod'

const multiply = createTool({
  id: 'multiply',
  description: 'Multiply two numbers.',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => String(a * b),
})

const agent = new Agent({
  id: 'multiply-agent',
  name: 'Multiply agent',
  instructions: 'Use the multiply tool when arithmetic is required.',
  model: rolloutModel('multiply-agent'),
  tools: { multiply },
})

// A call that fails ends its rollout with that error: it need not be logged as well.
const mastra = new Mastra({ agents: { agent }, logger: false })

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await mastra.getAgent('agent').generate(toModelMessages(ctx.prompt), {
      maxSteps: 8,
      modelSettings: { temperature: 1, topP: 1, maxOutputTokens: 4096 },
      abortSignal: ctx.signal,
    })
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
