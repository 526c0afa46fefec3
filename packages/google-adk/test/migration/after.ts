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
  model: new OsmosisLlm({ name: 'calculator', fallback: 'gemini-2.5-flash' }),
  generateContentConfig: { temperature: 1, maxOutputTokens: 4096 },
  tools: [multiply],
})

// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const runner = new InMemoryRunner({ agent: calculator })
  const newMessage = { role: 'user', parts: [{ text: 'What is 12 times 34?' }] }
  for await (const event of runner.runEphemeral({ userId: 'user', newMessage })) {
    const text = event.content?.parts?.at(-1)?.text
    if (text !== undefined) console.log(text)
  }
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const runner = new InMemoryRunner({ agent: calculator })
    const newMessage = toNewMessage(ctx.prompt)
    for await (const _ of runner.runEphemeral({ userId: 'user', newMessage }));
  }
}
