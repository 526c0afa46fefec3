import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { ChatOpenAI } from '@langchain/openai'
import { OsmosisChatModel } from '@osmosis/langchain'
import { createAgent, tool } from 'langchain'
import { z } from 'zod'

import { type AgentRuns, instructions, maxTokens, question, toolText } from './agent-runs.ts'

const multiply = tool(({ a, b }) => String(a * b), {
  name: 'multiply',
  description: toolText,
  schema: z.object({ a: z.number().int(), b: z.number().int() }),
})

const settings = { temperature: 1, maxTokens }
const input = { messages: [{ role: 'user', content: question }] }

export function before(baseURL: string): AgentRuns {
  const configuration = { baseURL }
  return runs(new ChatOpenAI({ ...settings, model: 'm', apiKey: 'unused', configuration }))
}

export function after(): AgentRuns {
  return runs(new OsmosisChatModel({ ...settings, name: 'main' }))
}

function runs(model: BaseChatModel): AgentRuns {
  const agent = createAgent({ model, tools: [multiply], systemPrompt: instructions })
  return {
    async generate() {
      const { messages } = await agent.invoke(input)
      return messages.at(-1)?.text ?? ''
    },
    async stream() {
      let text = ''
      for await (const [piece] of await agent.stream(input, { streamMode: 'messages' })) {
        if (piece.getType() === 'ai') text += piece.text
      }
      return text
    },
  }
}
