import { Agent, type AgentTool } from '@earendil-works/pi-agent-core'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
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

const params = { temperature: 1, max_tokens: 4096 }

function createAgent() {
  return new Agent({
    initialState: {
      systemPrompt: 'Use the multiply tool when arithmetic is required.',
      tools: [multiply],
    },
    streamFn: rolloutStreamFn({ name: 'calculator', params }),
  })
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = createAgent()
    ctx.signal.addEventListener('abort', () => agent.abort())
    await agent.prompt(toAgentMessages(ctx.prompt))
  }
}
