import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { type Agent, isStepCount, tool, ToolLoopAgent } from 'ai'
import { z } from 'zod'

import { type AgentRuns, instructions, maxTokens, question, toolText } from './agent-runs.ts'

const multiply = tool({
  description: toolText,
  inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: ({ a, b }) => String(a * b),
})

const settings = {
  instructions,
  temperature: 1,
  maxOutputTokens: maxTokens,
  tools: { multiply },
  stopWhen: isStepCount(8),
}

export function before(baseURL: string): AgentRuns {
  const provider = createOpenAICompatible({ name: 'provider', baseURL, includeUsage: true })
  return runs(() => new ToolLoopAgent({ ...settings, model: provider('m') }))
}

export function after(): AgentRuns {
  return runs(() => new OsmosisToolLoopAgent({ ...settings, id: 'main', model: rolloutModel() }))
}

function runs(createAgent: () => Agent<never, typeof settings.tools>): AgentRuns {
  return {
    generate: async () => (await createAgent().generate({ prompt: question })).text,
    async stream() {
      const { textStream } = await createAgent().stream({ prompt: question })
      let text = ''
      for await (const more of textStream) text += more
      return text
    },
  }
}
