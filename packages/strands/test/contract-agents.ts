import { FunctionTool } from '@strands-agents/sdk'
import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import type { AdapterUnderTest, ContractTool } from '@osmosis/testing'
import { z } from 'zod'

export const strands: AdapterUnderTest = {
  async run({ name, prompt, tools = [], signal }) {
    const agent = new OsmosisStrandsAgent({
      name,
      model: new OsmosisRolloutModel(),
      tools: tools.map(strandsTool),
    })
    const result = await agent.invoke(prompt, signal ? { cancelSignal: signal } : {})
    return result.toString()
  },
  async runTwoTurns({ name, prompt, tools = [] }) {
    const model = new OsmosisRolloutModel()
    const agent = new OsmosisStrandsAgent({ name, model, tools: tools.map(strandsTool) })
    return agent.invoke(prompt, { limits: { turns: 2 } })
  },
  async runStructured({ name, prompt }) {
    const structuredOutputSchema = z.object({ sum: z.number() })
    const model = new OsmosisRolloutModel()
    return new OsmosisStrandsAgent({ name, model, structuredOutputSchema }).invoke(prompt)
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
