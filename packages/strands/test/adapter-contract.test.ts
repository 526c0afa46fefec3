import { FunctionTool } from '@strands-agents/sdk'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import { type AdapterUnderTest, type ContractTool, runAdapterContract } from '@osmosis/testing'
import { describe, it } from 'vitest'

const strands: AdapterUnderTest = {
  async run({ name, prompt, tools = [], signal }) {
    const agent = new OsmosisStrandsAgent({
      name,
      model: new OsmosisRolloutModel(),
      tools: tools.map(strandsTool),
    })
    const result = await agent.invoke(prompt, signal ? { cancelSignal: signal } : {})
    return result.toString()
  },
  construct: (name) => new OsmosisStrandsAgent({ name, model: new OsmosisRolloutModel() }),
  callPlaceholder: () => new OsmosisStrandsAgent({ model: new OsmosisRolloutModel() }),
  // concurrent-rollouts.slow.test.ts runs hundreds, each of agents with helpers.
  concurrentRollouts: 10,
}

function strandsTool({ name, description, parameters, execute }: ContractTool): FunctionTool {
  return new FunctionTool({
    name,
    description,
    inputSchema: parameters,
    callback: (input) => execute(input),
  })
}

runAdapterContract({ describe, it }, 'strands', strands)
runAdapterContract({ describe, it }, 'strands without streams', {
  ...strands,
  streams: false,
  concurrentRollouts: 2,
})
