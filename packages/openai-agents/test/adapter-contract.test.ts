import { run, tool } from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { type AdapterUnderTest, type ContractTool, runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

import { isNewestSdk } from './running-sdk.ts'

const openaiAgents: AdapterUnderTest = {
  async run({ name, prompt, tools = [], signal }) {
    const agent = new OsmosisAgent({
      name,
      model: new OsmosisRolloutModel(),
      tools: tools.map(sdkTool),
    })
    const session = new OsmosisMemorySession({ name })
    const result = await run(agent, prompt, { session, ...(signal ? { signal } : {}) })
    return result.finalOutput ?? ''
  },
  construct: (name) => new OsmosisMemorySession({ name }),
  callPlaceholder: () => new OsmosisAgent({ name: 'stray', model: new OsmosisRolloutModel() }),
  // Keeping many apart is no matter of the version: the newest runs them all.
  concurrentRollouts: isNewestSdk ? 400 : 50,
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

runAdapterContract({ describe, it }, 'openai-agents', openaiAgents)
