import {
  AgentWorkflow,
  type AgentWorkflowContext,
  Grader,
  type GraderContext,
  lastAssistantText,
} from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'
import { OsmosisChatModel } from '@osmosis/langchain'
import { createAgent, tool } from 'langchain'
import { z } from 'zod'

const multiply = tool(({ a, b }) => String(a * b), {
  name: 'multiply',
  description: 'Multiply two integers.',
  schema: z.object({ a: z.number().int(), b: z.number().int() }),
})

const agent = createAgent({
  model: new OsmosisChatModel({ name: 'multiply-agent', temperature: 1, maxTokens: 4096 }),
  tools: [multiply],
  systemPrompt: 'Use the multiply tool when arithmetic is required.',
})

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    await agent.invoke({ messages: ctx.prompt }, { signal: ctx.signal })
  }
}

export class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [sampleId, sample] of ctx.samples) {
      ctx.setSampleReward(sampleId, numeric(lastAssistantText(sample), ctx.label))
    }
  }
}
