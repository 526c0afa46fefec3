import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { requireRolloutContext } from '@osmosis/core'
import type { AdapterUnderTest, ContractTool } from '@osmosis/testing'
import { generateText, isStepCount, jsonSchema, Output, streamText, tool, type ToolSet } from 'ai'
import { z } from 'zod'

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

const output = Output.object({ schema: z.object({ sum: z.number() }) })

function chatModel(baseURL: string) {
  return createOpenAICompatible({ name: 'provider', baseURL })('gpt-4.1')
}

export const agentClass: AdapterUnderTest = {
  async run({ name, prompt, tools, signal }) {
    const agent = new OsmosisToolLoopAgent({
      id: name,
      model: rolloutModel(),
      tools: sdkTools(tools),
    })
    const { text } = await agent.generate({ prompt, ...(signal ? { abortSignal: signal } : {}) })
    return text
  },
  async runTwoTurns({ name, prompt, tools }) {
    const stopWhen = isStepCount(2)
    const agent = new OsmosisToolLoopAgent({
      id: name,
      model: rolloutModel(),
      tools: sdkTools(tools),
      stopWhen,
    })
    return agent.generate({ prompt })
  },
  async runStructured({ name, prompt }) {
    const agent = new OsmosisToolLoopAgent({ id: name, model: rolloutModel(), output })
    return (await agent.generate({ prompt })).output
  },
  async runWithFallback({ name, prompt }, url) {
    const model = rolloutModel({ fallback: chatModel(url) })
    return (await new OsmosisToolLoopAgent({ id: name, model }).generate({ prompt })).text
  },
  construct: (name) => new OsmosisToolLoopAgent({ id: name, model: rolloutModel() }),
  callPlaceholder: () => new OsmosisToolLoopAgent({ model: rolloutModel() }),
  concurrentRollouts: 2,
}

// A model alone is made wherever it is needed, any number of times with one name.
const noConstruction = {
  'names-agents-without-calls': 'a model is known to the rollout from its first call on',
  'refuses-duplicates': 'models of one name are one sample',
}

export const generating: AdapterUnderTest = {
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
  runTwoTurns: async ({ name, prompt, tools }) =>
    generateText({
      model: rolloutModel(name),
      prompt,
      tools: sdkTools(tools),
      stopWhen: isStepCount(2),
    }),
  runStructured: async ({ name, prompt }) =>
    (await generateText({ model: rolloutModel(name), prompt, output })).output,
  runWithFallback: async ({ name, prompt }, url) =>
    (await generateText({ model: rolloutModel({ name, fallback: chatModel(url) }), prompt })).text,
  construct: () => requireRolloutContext('a model'),
  callPlaceholder: async () => generateText({ model: rolloutModel(), prompt: 'go' }),
  exempt: noConstruction,
  concurrentRollouts: 2,
}

export const streaming: AdapterUnderTest = {
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
  runTwoTurns: async ({ name, prompt, tools }) =>
    streamText({
      model: rolloutModel(name),
      prompt,
      tools: sdkTools(tools),
      stopWhen: isStepCount(2),
    }).text,
  runStructured: async ({ name, prompt }) =>
    streamText({ model: rolloutModel(name), prompt, output }).output,
  runWithFallback: async ({ name, prompt }, url) =>
    streamText({ model: rolloutModel({ name, fallback: chatModel(url) }), prompt }).text,
  construct: () => requireRolloutContext('a model'),
  callPlaceholder: async () => streamText({ model: rolloutModel(), prompt: 'go' }).text,
  exempt: noConstruction,
  // The slow tests run hundreds.
  concurrentRollouts: 10,
}
