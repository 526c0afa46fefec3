import { OsmosisRolloutModel, OsmosisStrandsAgent } from '@osmosis/strands'
import type { AdapterUnderTest, ContractTool } from '@osmosis/testing'
import {
  Agent,
  type BaseModelConfig,
  FunctionTool,
  type Message,
  Model,
  type ModelStreamEvent,
  type StreamOptions,
} from '@strands-agents/sdk'
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
  async runTwoTurns({ name, prompt, tools = [] }, url) {
    const model = url === undefined ? new OsmosisRolloutModel() : new ChatModel(url)
    const agent = new OsmosisStrandsAgent({ name, model, tools: tools.map(strandsTool) })
    return agent.invoke(prompt, { limits: { turns: 2 } })
  },
  async runStructured({ name, prompt }, url) {
    const structuredOutputSchema = z.object({ sum: z.number() })
    const model = url === undefined ? new OsmosisRolloutModel() : new ChatModel(url)
    const agent = new OsmosisStrandsAgent({ name, model, structuredOutputSchema })
    return (await agent.invoke(prompt)).structuredOutput
  },
  async runWithFallback({ name, prompt, tools = [] }, url) {
    const model = new OsmosisRolloutModel({ fallback: () => new ChatModel(url) })
    const config = { name, model, tools: tools.map(strandsTool), printer: false }
    return (await new OsmosisStrandsAgent(config).invoke(prompt)).toString()
  },
  async runOwnModel({ name, prompt, tools = [] }, url) {
    const config = {
      name,
      model: new ChatModel(url),
      tools: tools.map(strandsTool),
      printer: false,
    }
    return (await new Agent(config).invoke(prompt)).toString()
  },
  async leaveStream({ name, prompt }) {
    const agent = new OsmosisStrandsAgent({ name, model: new OsmosisRolloutModel() })
    for await (const event of agent.stream(prompt)) {
      if (event.type === 'modelStreamUpdateEvent') break
    }
  },
  prepare(name) {
    const agent = new OsmosisStrandsAgent({ name, model: new OsmosisRolloutModel() })
    return async () => agent.invoke('go')
  },
  construct: (name) => new OsmosisStrandsAgent({ name, model: new OsmosisRolloutModel() }),
  callPlaceholder: () => new OsmosisStrandsAgent({ model: new OsmosisRolloutModel() }),
  // The slow tests run hundreds.
  concurrentRollouts: 10,
}

/** A model of a user: chat completions, which get what Strands gives. */
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

  override async *stream(
    given: Message[],
    { systemPrompt, toolSpecs }: StreamOptions = {},
  ): AsyncGenerator<ModelStreamEvent> {
    const messages = given.map(({ role, content }) => ({ role, content: JSON.stringify(content) }))
    const body = JSON.stringify({ model: 'gpt-4.1', messages, systemPrompt, toolSpecs })
    const response = await fetch(`${this.#url}/chat/completions`, { method: 'POST', body })
    const { choices } = (await response.json()) as { choices: [{ message: SaidMessage }] }
    const [{ message }] = choices
    yield { type: 'modelMessageStartEvent', role: 'assistant' }
    if (message.content) {
      yield { type: 'modelContentBlockStartEvent' }
      const delta = { type: 'textDelta', text: message.content } as const
      yield { type: 'modelContentBlockDeltaEvent', delta }
      yield { type: 'modelContentBlockStopEvent' }
    }
    for (const { id: toolUseId, function: called } of message.tool_calls ?? []) {
      const start = { type: 'toolUseStart', name: called.name, toolUseId } as const
      yield { type: 'modelContentBlockStartEvent', start }
      const delta = { type: 'toolUseInputDelta', input: called.arguments } as const
      yield { type: 'modelContentBlockDeltaEvent', delta }
      yield { type: 'modelContentBlockStopEvent' }
    }
    const stopReason = message.tool_calls ? 'toolUse' : 'endTurn'
    yield { type: 'modelMessageStopEvent', stopReason }
  }
}

interface SaidMessage {
  readonly content: string | null
  readonly tool_calls?: readonly {
    readonly id: string
    readonly function: { readonly name: string; readonly arguments: string }
  }[]
}

function strandsTool({ name, description, parameters, execute }: ContractTool): FunctionTool {
  return new FunctionTool({
    name,
    description,
    inputSchema: parameters,
    callback: (input) => execute(input),
  })
}
