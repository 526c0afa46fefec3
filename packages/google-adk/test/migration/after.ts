import { FunctionTool, InMemoryRunner, LlmAgent } from '@google/adk'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { OsmosisLlm, toNewMessage } from '@osmosis/google-adk'
import { z } from 'zod'

const multiply = new FunctionTool({
  name: 'multiply',
  description: 'Multiply two integers.',
  parameters: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: ({ a, b }) => String(a * b),
})

const calculator = new LlmAgent({
  name: 'calculator',
  instruction: 'Use the multiply tool when arithmetic is required.',
  model: new OsmosisLlm('calculator'),
  generateContentConfig: { temperature: 1, maxOutputTokens: 4096 },
  tools: [multiply],
})

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const runner = new InMemoryRunner({ agent: calculator })
    const newMessage = toNewMessage(ctx.prompt)
    for await (const _ of runner.runEphemeral({ userId: 'user', newMessage }));
  }
}
