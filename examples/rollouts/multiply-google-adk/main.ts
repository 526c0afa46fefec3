import { FunctionTool, InMemoryRunner, LlmAgent } from '@google/adk'
import {
  AgentWorkflow,
  Grader,
  lastAssistantText,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { OsmosisLlm, toNewMessage } from '@osmosis/google-adk'
import { z } from 'zod'

const multiply = new FunctionTool({
  name: 'multiply',
  description: 'Multiply two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a * b),
})

const agent = new LlmAgent({
  name: 'calculator',
  instruction: 'Use the multiply tool when arithmetic is required.',
  model: new OsmosisLlm('multiply-agent'),
  generateContentConfig: { temperature: 1, topP: 1, maxOutputTokens: 4096 },
  tools: [multiply],
})

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const runner = new InMemoryRunner({ agent })
    const newMessage = toNewMessage(ctx.prompt)
    const runConfig = { maxLlmCalls: 8 }
    for await (const _ of runner.runEphemeral({ userId: 'user', newMessage, runConfig }));
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
