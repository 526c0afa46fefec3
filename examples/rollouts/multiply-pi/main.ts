import { Agent, type AgentTool } from '@earendil-works/pi-agent-core'
import {
  AgentWorkflow,
  defineWorkflowConfig,
  Grader,
  lastAssistantText,
  type AgentWorkflowContext,
  type GraderContext,
} from '@osmosis/core'
import { rolloutStreamFn, toAgentMessages } from '@osmosis/pi'
import { type Static, Type } from 'typebox'

const numbers = Type.Object({ a: Type.Number(), b: Type.Number() })
const multiply: AgentTool<typeof numbers> = {
  name: 'multiply',
  label: 'Multiply',
  description: 'Multiply two numbers.',
  parameters: numbers,
  execute: async (_id, { a, b }: Static<typeof numbers>) => ({
    content: [{ type: 'text', text: String(a * b) }],
    details: {},
  }),
}

// Pi has no limit of turns.
export const config = defineWorkflowConfig({ name: 'multiply', rolloutLimits: { modelCalls: 8 } })

const params = { temperature: 1, top_p: 1, max_tokens: 4096 }

export class MultiplyWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = new Agent({
      initialState: {
        systemPrompt: 'Use the multiply tool when arithmetic is required.',
        tools: [multiply],
      },
      streamFn: rolloutStreamFn({ name: 'multiply-agent', params }),
    })
    ctx.signal.addEventListener('abort', () => agent.abort())
    await agent.prompt(toAgentMessages(ctx.prompt))
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
