import { Agent, type AgentTool, type StreamFn } from '@earendil-works/pi-agent-core'
import { contentText, type Model } from '@earendil-works/pi-ai'
import { streamSimple } from '@earendil-works/pi-ai/api/openai-completions'
import { rolloutStreamFn } from '@osmosis/pi'
import { type Static, Type } from 'typebox'

import { type AgentRuns, instructions, maxTokens, question, toolText } from './agent-runs.ts'

const numbers = Type.Object({ a: Type.Integer(), b: Type.Integer() })
const multiply: AgentTool<typeof numbers> = {
  name: 'multiply',
  label: 'Multiply',
  description: toolText,
  parameters: numbers,
  execute: async (_id, { a, b }: Static<typeof numbers>) => ({
    content: [{ type: 'text', text: String(a * b) }],
    details: {},
  }),
}

export function before(baseUrl: string): AgentRuns {
  const model: Model<'openai-completions'> = {
    id: 'm',
    name: 'm',
    api: 'openai-completions',
    provider: 'own',
    baseUrl,
    reasoning: false,
    input: ['text'],
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
    contextWindow: 100_000,
    maxTokens,
  }
  const settings = { temperature: 1, maxTokens, apiKey: 'key' }
  return runs((_model, context, options) =>
    streamSimple(model, context, { ...options, ...settings }),
  )
}

export function after(): AgentRuns {
  return runs(rolloutStreamFn({ name: 'main', params: { temperature: 1, max_tokens: maxTokens } }))
}

/** Pi streams always. */
function runs(streamFn: StreamFn): AgentRuns {
  const run = async (): Promise<string> => {
    const initialState = { systemPrompt: instructions, tools: [multiply] }
    const agent = new Agent({ initialState, streamFn })
    await agent.prompt(question)
    const answer = agent.state.messages.at(-1)
    return answer?.role === 'assistant' ? contentText(answer.content) : ''
  }
  return { generate: run, stream: run }
}
