import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { Agent, tool } from '@strands-agents/sdk'
import { OpenAIModel } from '@strands-agents/sdk/models/openai'
import { z } from 'zod'

import { type AgentRuns, instructions, maxTokens, question, toolText } from './agent-runs.ts'

const multiply = tool({
  name: 'multiply',
  description: toolText,
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  callback: ({ a, b }) => String(a * b),
})

const settings = {
  name: 'calculator',
  systemPrompt: instructions,
  tools: [multiply],
  printer: false,
}

export function before(baseURL: string): AgentRuns {
  const model = new OpenAIModel({
    api: 'chat',
    modelId: 'm',
    apiKey: 'key',
    clientConfig: { baseURL },
    temperature: 1,
    maxTokens,
  })
  return runs(() => new Agent({ ...settings, model }))
}

export function after(): AgentRuns {
  const model = new OsmosisRolloutModel({ params: { temperature: 1, max_tokens: maxTokens } })
  return runs(() => new OsmosisStrandsAgent({ ...settings, model }))
}

function runs(createAgent: () => Agent): AgentRuns {
  return {
    generate: async () => (await createAgent().invoke(question)).toString(),
    async stream() {
      const events = createAgent().stream(question)
      for (;;) {
        const { done, value } = await events.next()
        if (done) return value.toString()
      }
    },
  }
}
