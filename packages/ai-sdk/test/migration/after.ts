import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { OsmosisToolLoopAgent, rolloutModel, toModelMessages } from '@osmosis/ai-sdk'
import { AgentWorkflow, type AgentWorkflowContext } from '@osmosis/core'
import { isStepCount, tool } from 'ai'
import { z } from 'zod'

const provider = createOpenAICompatible({
  name: 'provider',
  baseURL: String(process.env['MODEL_BASE_URL']),
})

const multiply = tool({
  description: 'Multiply two integers.',
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: ({ a, b }) => String(a * b),
})

function createAgent() {
  return new OsmosisToolLoopAgent({
    id: 'calculator',
    instructions: 'Use the multiply tool when arithmetic is required.',
    model: rolloutModel({ fallback: provider('gpt-4.1') }),
    temperature: 1,
    maxOutputTokens: 4096,
    tools: { multiply },
    stopWhen: isStepCount(8),
  })
}

// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const result = await createAgent().generate({ prompt: 'What is 12 times 34?' })
  console.log(result.text)
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const messages = toModelMessages(ctx.prompt)
    await createAgent().generate({ messages, abortSignal: ctx.signal })
  }
}
