import {
  type BaseModelConfig,
  FunctionTool,
  Model,
  type ModelStreamEvent,
} from '@strands-agents/sdk'
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
  async runWithFallback({ name, prompt }, url) {
    const model = new OsmosisRolloutModel({ fallback: new ChatModel(url) })
    return (
      await new OsmosisStrandsAgent({ name, model, printer: false }).invoke(prompt)
    ).toString()
  },
  construct: (name) => new OsmosisStrandsAgent({ name, model: new OsmosisRolloutModel() }),
  callPlaceholder: () => new OsmosisStrandsAgent({ model: new OsmosisRolloutModel() }),
  // The slow tests run hundreds.
  concurrentRollouts: 10,
}

/** A model of a user: chat completions, without tools. */
class ChatModel extends Model {
  readonly #url: string

  constructor(url: string) {
    super()
    this.#url = url
  }

  override getConfig(): BaseModelConfig {
    return { modelId: 'gpt-4.1' }
  }

  override updateConfig(): void {}

  override async *stream(): AsyncGenerator<ModelStreamEvent> {
    const body = JSON.stringify({ model: 'gpt-4.1', messages: [{ role: 'user', content: 'go' }] })
    const response = await fetch(`${this.#url}/chat/completions`, { method: 'POST', body })
    const { choices } = (await response.json()) as { choices: [{ message: { content: string } }] }
    yield { type: 'modelMessageStartEvent', role: 'assistant' }
    yield { type: 'modelContentBlockStartEvent' }
    const delta = { type: 'textDelta', text: choices[0].message.content } as const
    yield { type: 'modelContentBlockDeltaEvent', delta }
    yield { type: 'modelContentBlockStopEvent' }
    yield { type: 'modelMessageStopEvent', stopReason: 'endTurn' }
  }
}

function strandsTool({ name, description, parameters, execute }: ContractTool): FunctionTool {
  return new FunctionTool({
    name,
    description,
    inputSchema: parameters,
    callback: (input) => execute(input),
  })
}
