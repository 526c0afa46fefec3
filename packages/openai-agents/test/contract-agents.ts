import { Agent, MemorySession, type Model, OpenAIProvider, run, tool } from '@openai/agents'
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
  async runTwoTurns({ name, prompt, tools = [] }, url) {
    if (url !== undefined) {
      const judge = new Agent({ name, model: await chatModel(url), tools: tools.map(sdkTool) })
      return run(judge, prompt, { maxTurns: 2 })
    }
    const session = new OsmosisMemorySession({ name })
    return run(agentOf(name, tools), prompt, { session, maxTurns: 2 })
  },
  async runStructured({ name, prompt }, url) {
    const outputType = z.object({ sum: z.number() })
    if (url !== undefined) {
      const other = new Agent({ name, model: await chatModel(url), outputType })
      return (await run(other, prompt)).finalOutput
    }
    const agent = new OsmosisAgent({ name, model: new OsmosisRolloutModel(), outputType })
    return (await run(agent, prompt, { session: new OsmosisMemorySession({ name }) })).finalOutput
  },
  async runWithFallback({ name, prompt, tools = [] }, baseURL) {
    const own = await chatModel(baseURL)
    const model = new OsmosisRolloutModel({ fallback: () => own })
    const agent = new OsmosisAgent({ name, model, tools: tools.map(sdkTool) })
    const { finalOutput } = await run(agent, prompt, {
      session: new OsmosisMemorySession({ name }),
    })
    return finalOutput ?? ''
  },
  async runOwnModel({ name, prompt, tools = [] }, baseURL) {
    const model = await chatModel(baseURL)
    const agent = new Agent({ name, model, tools: tools.map(sdkTool) })
    const { finalOutput } = await run(agent, prompt, { session: new MemorySession() })
    return finalOutput ?? ''
  },
  prepare(name) {
    const agent = agentOf(name, [])
    const session = new OsmosisMemorySession({ name })
    return async () => run(agent, 'go', { session })
  },
  construct: (name) => new OsmosisMemorySession({ name }),
  callPlaceholder: () => new OsmosisAgent({ name: 'stray', model: new OsmosisRolloutModel() }),
  exempt: { 'logs-tool-errors': 'only the errorFunction of a tool sees what it threw' },
  // The slow tests run hundreds.
  concurrentRollouts: 10,
}

async function chatModel(baseURL: string): Promise<Model> {
  const provider = new OpenAIProvider({ baseURL, apiKey: 'key', useResponses: false })
  return provider.getModel('gpt-4.1')
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
  async leaveStream({ name, prompt }) {
    const session = new OsmosisMemorySession({ name })
    const stream = await run(agentOf(name, []), prompt, { session, stream: true })
    for await (const event of stream) if (event.type === 'raw_model_stream_event') break
  },
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
