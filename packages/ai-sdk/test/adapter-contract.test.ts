import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { requireRolloutContext } from '@osmosis/core'
import { type AdapterUnderTest, type ContractTool, runAdapterContract } from '@osmosis/testing'
import { generateText, isStepCount, jsonSchema, streamText, tool, type ToolSet } from 'ai'
import { describe, it } from 'vitest'

import { isNewestSdk } from './running-sdk.ts'

function sdkTools(tools: readonly ContractTool[] = []): ToolSet {
  return Object.fromEntries(
    tools.map(({ name, description, parameters, execute }) => [
      name,
      tool({
        description,
        inputSchema: jsonSchema<object>(parameters as object),
        execute: async (input) => execute(input),
      }),
    ]),
  )
}

const agentClass: AdapterUnderTest = {
  async run({ name, prompt, tools, signal }) {
    const agent = new OsmosisToolLoopAgent({
      id: name,
      model: rolloutModel(),
      tools: sdkTools(tools),
    })
    const { text } = await agent.generate({ prompt, ...(signal ? { abortSignal: signal } : {}) })
    return text
  },
  construct: (name) => new OsmosisToolLoopAgent({ id: name, model: rolloutModel() }),
  callPlaceholder: () => new OsmosisToolLoopAgent({ model: rolloutModel() }),
  concurrentRollouts: 50,
}

// A model alone is made wherever it is needed, any number of times with one name.
const noConstruction = {
  'names-unasked': 'a model is known to the rollout from its first call on',
  'refuses-duplicates': 'models of one name are one sample',
}

const generating: AdapterUnderTest = {
  async run({ name, prompt, tools, signal }) {
    const { text } = await generateText({
      model: rolloutModel(name),
      prompt,
      tools: sdkTools(tools),
      stopWhen: isStepCount(20),
      ...(signal ? { abortSignal: signal } : {}),
    })
    return text
  },
  construct: () => requireRolloutContext('a model'),
  callPlaceholder: async () => generateText({ model: rolloutModel(), prompt: 'go' }),
  exempt: noConstruction,
  concurrentRollouts: 50,
}

const streaming: AdapterUnderTest = {
  async run({ name, prompt, tools, signal }) {
    const result = streamText({
      model: rolloutModel(name),
      prompt,
      tools: sdkTools(tools),
      stopWhen: isStepCount(20),
      ...(signal ? { abortSignal: signal } : {}),
    })
    return result.text
  },
  construct: () => requireRolloutContext('a model'),
  callPlaceholder: async () => streamText({ model: rolloutModel(), prompt: 'go' }).text,
  exempt: noConstruction,
  // What keeps many apart is the same for every way and version: one of each is run in full.
  concurrentRollouts: isNewestSdk ? 400 : 50,
}

runAdapterContract({ describe, it }, 'OsmosisToolLoopAgent', agentClass)
runAdapterContract({ describe, it }, 'generateText', generating)
runAdapterContract({ describe, it }, 'streamText', streaming)

const withoutStreams = { streams: false, concurrentRollouts: 10 }
runAdapterContract({ describe, it }, 'OsmosisToolLoopAgent without streams', {
  ...agentClass,
  ...withoutStreams,
})
runAdapterContract({ describe, it }, 'streamText without streams', {
  ...streaming,
  ...withoutStreams,
})
