import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import {
  AgentWorkflow,
  type AgentWorkflowContext,
  Grader,
  type GraderContext,
  lastAssistantText,
} from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'
import { rolloutModel, toModelMessages } from '@osmosis/mastra'
import { z } from 'zod'

const multiply = createTool({
  id: 'multiply',
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => String(a * b),
})

const agent = new Agent({
  id: 'multiply-agent',
  name: 'Multiply agent',
  instructions: 'Use the multiply tool when arithmetic is required.',
  model: rolloutModel({ name: 'multiply-agent', temperature: 1, maxOutputTokens: 4096 }),
  tools: { multiply },
})

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await agent.generate(toModelMessages(ctx.prompt), { abortSignal: ctx.signal })
  }
}

export class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(numeric(lastAssistantText(ctx.sample), ctx.label))
  }
}
