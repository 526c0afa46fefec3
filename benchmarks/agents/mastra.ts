import { Agent } from '@mastra/core/agent'
import type { MastraModelConfig } from '@mastra/core/llm'
import { createTool } from '@mastra/core/tools'
import { rolloutModel } from '@osmosis/mastra'
import { z } from 'zod'

import { type AgentRuns, instructions, maxTokens, question, toolText } from './agent-runs.ts'

const multiply = createTool({
  id: 'multiply',
  description: toolText,
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => String(a * b),
})

const settings = { id: 'main', name: 'Main', instructions, tools: { multiply } }
const options = { maxSteps: 8, modelSettings: { temperature: 1, maxOutputTokens: maxTokens } }

export function before(baseURL: string): AgentRuns {
  return runs({ id: 'openai/m', url: baseURL, apiKey: 'key' })
}

export function after(): AgentRuns {
  return runs(rolloutModel('main'))
}

function runs(model: MastraModelConfig): AgentRuns {
  const agent = new Agent({ ...settings, model })
  return {
    generate: async () => (await agent.generate(question, options)).text,
    async stream() {
      const { textStream } = await agent.stream(question, options)
      let text = ''
      for await (const more of textStream) text += more
      return text
    },
  }
}
