import { Agent, OpenAIProvider, run, setTracingDisabled, tool } from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { z } from 'zod'

import { type AgentRuns, instructions, maxTokens, question, toolText } from './agent-runs.ts'

// Traces have no receiver here; in rollouts tracing is off as well.
setTracingDisabled(true)

const multiply = tool({
  name: 'multiply',
  description: toolText,
  parameters: z.object({ a: z.number().int(), b: z.number().int() }),
  execute: async ({ a, b }) => String(a * b),
})

const settings = {
  name: 'calculator',
  instructions,
  modelSettings: { temperature: 1, maxTokens },
  tools: [multiply],
}

export async function before(baseURL: string): Promise<AgentRuns> {
  // The provider makes an OpenAIChatCompletionsModel with the `openai` client.
  const provider = new OpenAIProvider({ baseURL, apiKey: 'key', useResponses: false })
  const model = await provider.getModel('m')
  return runs(
    () => new Agent({ ...settings, model }),
    () => ({}),
  )
}

export function after(): AgentRuns {
  return runs(
    () => new OsmosisAgent({ ...settings, model: new OsmosisRolloutModel() }),
    () => ({ session: new OsmosisMemorySession({ name: 'main' }) }),
  )
}

function runs(
  createAgent: () => Agent,
  options: () => { session?: OsmosisMemorySession },
): AgentRuns {
  return {
    generate: async () => String((await run(createAgent(), question, options())).finalOutput),
    async stream() {
      const result = await run(createAgent(), question, { ...options(), stream: true })
      const events = result[Symbol.asyncIterator]()
      while (!(await events.next()).done);
      await result.completed
      return String(result.finalOutput)
    },
  }
}
