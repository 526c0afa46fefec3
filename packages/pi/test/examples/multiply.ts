import { Agent, type AgentTool } from '@earendil-works/pi-agent-core'
import {
  AgentWorkflow,
  type AgentWorkflowContext,
  Grader,
  type GraderContext,
  lastAssistantText,
} from '@osmosis/core'
import { numeric } from '@osmosis/core/scores'
import { rolloutStreamFn, toAgentMessages } from '@osmosis/pi'
import { type Static, Type } from 'typebox'

const numbers = Type.Object({ a: Type.Integer(), b: Type.Integer() })
const multiply: AgentTool<typeof numbers> = {
  name: 'multiply',
  label: 'Multiply',
  description: 'Multiply two integers.',
  parameters: numbers,
  execute: async (_id, { a, b }: Static<typeof numbers>) => ({
    content: [{ type: 'text', text: String(a * b) }],
    details: {},
  }),
}

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new Agent({
      initialState: {
        systemPrompt: 'Use the multiply tool when arithmetic is required.',
        tools: [multiply],
      },
      streamFn: rolloutStreamFn('multiply-agent'),
    })
    await agent.prompt(toAgentMessages(ctx.prompt))
  }
}

export class MultiplyGrader extends Grader {
  async grade(ctx: GraderContext): Promise<void> {
    ctx.setReward(numeric(lastAssistantText(ctx.sample), ctx.label))
  }
}
