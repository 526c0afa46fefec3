import { OpenAIProvider, run, tool } from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import type { AdapterUnderTest, ContractTool } from '@osmosis/testing'
import { z } from 'zod'

export const openaiAgents: AdapterUnderTest = {
  async run({ name, prompt, tools = [], signal }) {
    const agent = agentOf(name, tools)
    const session = new OsmosisMemorySession({ name })
    const result = await run(agent, prompt, { session, ...(signal ? { signal } : {}) })
    return result.finalOutput ?? ''
  },
  async runTwoTurns({ name, prompt, tools = [] }) {
    const session = new OsmosisMemorySession({ name })
    return run(agentOf(name, tools), prompt, { session, maxTurns: 2 })
  },
  async runStructured({ name, prompt }) {
    const outputType = z.object({ sum: z.number() })
    const agent = new OsmosisAgent({ name, model: new OsmosisRolloutModel(), outputType })
    return run(agent, prompt, { session: new OsmosisMemorySession({ name }) })
  },
  async runWithFallback({ name, prompt }, baseURL) {
    const provider = new OpenAIProvider({ baseURL, apiKey: 'key', useResponses: false })
    const model = new OsmosisRolloutModel({ fallback: await provider.getModel('gpt-4.1') })
    const session = new OsmosisMemorySession({ name })
    const { finalOutput } = await run(new OsmosisAgent({ name, model }), prompt, { session })
    return finalOutput ?? ''
  },
  construct: (name) => new OsmosisMemorySession({ name }),
  callPlaceholder: () => new OsmosisAgent({ name: 'stray', model: new OsmosisRolloutModel() }),
  exempt: { 'logs-tool-errors': 'only the errorFunction of a tool sees what it threw' },
  // The slow tests run hundreds.
  concurrentRollouts: 10,
}

function agentOf(name: string, tools: readonly ContractTool[]): OsmosisAgent {
  return new OsmosisAgent({ name, model: new OsmosisRolloutModel(), tools: tools.map(sdkTool) })
}

function sdkTool({ name, description, parameters, execute }: ContractTool) {
  return tool({
    name,
    description,
    parameters: parameters as never,
    strict: false,
    execute: async (input: unknown) => execute(input),
  })
}

export const streamingAgents: AdapterUnderTest = {
  ...openaiAgents,
  async run({ name, prompt, tools = [], signal }) {
    const agent = agentOf(name, tools)
    const session = new OsmosisMemorySession({ name })
    const settings = { session, stream: true as const, ...(signal ? { signal } : {}) }
    const result = await run(agent, prompt, settings)
    await result.completed
    // What an aborted run has is not finished, and the SDK would say so.
    return signal?.aborted ? '' : (result.finalOutput ?? '')
  },
}
