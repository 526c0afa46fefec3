import { FunctionTool, InMemoryRunner, LlmAgent } from '@google/adk'
import {
  AgentWorkflow,
  type AgentWorkflowContext,
  Grader,
  type GraderContext,
  lastAssistantText,
} from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'
import { OsmosisLlm, toNewMessage } from '@osmosis/google-adk'
import { z } from 'zod'

const multiply = new FunctionTool({
  name: 'multiply',
  description: 'Multiply two integers.',
  parameters: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: ({ a, b }) => String(a * b),
})

const agent = new LlmAgent({
  name: 'calculator',
  instruction: 'Use the multiply tool when arithmetic is required.',
  model: new OsmosisLlm('multiply-agent'),
  generateContentConfig: { temperature: 1, maxOutputTokens: 4096 },
  tools: [multiply],
})

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const runner = new InMemoryRunner({ agent })
    const newMessage = toNewMessage(ctx.prompt)
    for await (const _ of runner.runEphemeral({ userId: 'user', newMessage }));
  }
}

export class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    for (const [sampleId, sample] of ctx.samples) {
      ctx.setSampleReward(sampleId, numeric(lastAssistantText(sample), ctx.label))
    }
  }
}
