import { run, tool } from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { type AdapterUnderTest, type ContractTool, runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { isNewestSdk } from './running-sdk.ts'

const openaiAgents: AdapterUnderTest = {
  async run({ name, prompt, tools = [], signal }) {
    const agent = agentOf(name, tools)
    const session = new OsmosisMemorySession({ name })
    const result = await run(agent, prompt, { session, ...(signal ? { signal } : {}) })
    return result.finalOutput ?? ''
  },
  construct: (name) => new OsmosisMemorySession({ name }),
  callPlaceholder: () => new OsmosisAgent({ name: 'stray', model: new OsmosisRolloutModel() }),
  // Keeping many apart is no matter of the version: the newest runs them all.
  concurrentRollouts: isNewestSdk ? 400 : 50,
}

function agentOf(name: string, tools: readonly ContractTool[]): OsmosisAgent {
  return new OsmosisAgent({ name, model: new OsmosisRolloutModel(), tools: tools.map(sdkTool) })
}

const withoutStreams = { streams: false, concurrentRollouts: 10 }

function sdkTool({ name, description, parameters, execute }: ContractTool) {
  return tool({
    name,
    description,
    parameters: parameters as never,
    strict: false,
    execute: async (input: unknown) => execute(input),
  })
}

runAdapterContract({ describe, it }, 'openai-agents', openaiAgents)
runAdapterContract({ describe, it }, 'openai-agents without streams', {
  ...openaiAgents,
  ...withoutStreams,
})
runAdapterContract({ describe, it }, 'openai-agents that stream, without streams', {
  ...openaiAgents,
  ...withoutStreams,
  async run({ name, prompt, tools = [], signal }) {
    const agent = agentOf(name, tools)
    const session = new OsmosisMemorySession({ name })
    const settings = { session, stream: true as const, ...(signal ? { signal } : {}) }
    const result = await run(agent, prompt, settings)
    await result.completed
    // What an aborted run has is not finished, and the SDK would say so.
    return signal?.aborted ? '' : (result.finalOutput ?? '')
  },
})
