import { Agent, type AgentTool } from '@earendil-works/pi-agent-core'
import { contentText, type Model } from '@earendil-works/pi-ai'
import { streamSimple } from '@earendil-works/pi-ai/api/openai-completions'
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

const model: Model<'openai-completions'> = {
  id: 'gpt-4.1',
  name: 'GPT-4.1',
  api: 'openai-completions',
  provider: 'openai',
  baseUrl: String(process.env['MODEL_BASE_URL']),
  reasoning: false,
  input: ['text'],
  cost: { input: 2, output: 8, cacheRead: 0.5, cacheWrite: 0 },
  contextWindow: 1_000_000,
  maxTokens: 4096,
  compat: { maxTokensField: 'max_tokens' },
}

const params = { temperature: 1, max_tokens: 4096 }

function createAgent() {
  return new Agent({
    initialState: {
      systemPrompt: 'Use the multiply tool when arithmetic is required.',
      model,
      tools: [multiply],
    },
    streamFn: rolloutStreamFn({
      name: 'calculator',
      params,
      fallback: (_model, context, options) => {
        const settings = {
          temperature: 1,
          maxTokens: 4096,
          apiKey: String(process.env['MODEL_API_KEY']),
        }
        return streamSimple(model, context, { ...options, ...settings })
      },
    }),
  })
}

// A rollout server imports the program: it only runs when it is started by itself.
if (process.argv[1] === import.meta.filename) {
  const agent = createAgent()
  await agent.prompt('What is 12 times 34?')
  const answer = agent.state.messages.at(-1)
  if (answer?.role === 'assistant') console.log(contentText(answer.content))
}

export class CalculatorWorkflow extends AgentWorkflow {
  async run(ctx: AgentWorkflowContext): Promise<void> {
    const agent = createAgent()
    ctx.signal.addEventListener('abort', () => agent.abort())
    await agent.prompt(toAgentMessages(ctx.prompt))
  }
}
