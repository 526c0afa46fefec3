import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { requireRolloutContext } from '@osmosis/core'
import type { AdapterUnderTest, ContractRun, ContractTool } from '@osmosis/testing'
import {
  generateText,
  isStepCount,
  jsonSchema,
  type LanguageModel,
  Output,
  streamText,
  tool,
  ToolLoopAgent,
  type ToolSet,
} from 'ai'
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
  return createOpenAICompatible({ name: 'provider', baseURL, supportsStructuredOutputs: true })(
    'gpt-4.1',
  )
}

const modelOf = (name: string, url: string | undefined) =>
  url === undefined ? rolloutModel(name) : chatModel(url)

const withFallback = (name: string, url: string) =>
  rolloutModel({ name, fallback: () => chatModel(url) })

const settingsOf = ({ prompt, tools, signal }: ContractRun) => ({
  prompt,
  tools: sdkTools(tools),
  stopWhen: isStepCount(20),
  ...(signal ? { abortSignal: signal } : {}),
})

const textOf = async (run: ContractRun, model: LanguageModel): Promise<string> =>
  (await generateText({ model, ...settingsOf(run) })).text

const streamedText = async (run: ContractRun, model: LanguageModel): Promise<string> =>
  streamText({ model, ...settingsOf(run) }).text

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
  async runTwoTurns({ name, prompt, tools }, url) {
    const stopWhen = isStepCount(2)
    const agent = new OsmosisToolLoopAgent({
      id: name,
      model: url === undefined ? rolloutModel() : chatModel(url),
      tools: sdkTools(tools),
      stopWhen,
    })
    return agent.generate({ prompt })
  },
  async runStructured({ name, prompt }, url) {
    const model = url === undefined ? rolloutModel() : chatModel(url)
    const agent = new OsmosisToolLoopAgent({ id: name, model, output })
    return (await agent.generate({ prompt })).output
  },
  async runWithFallback({ name, prompt, tools }, url) {
    const model = rolloutModel({ fallback: () => chatModel(url) })
    const agent = new OsmosisToolLoopAgent({ id: name, model, tools: sdkTools(tools) })
    return (await agent.generate({ prompt })).text
  },
  async runOwnModel({ name, prompt, tools }, url) {
    const agent = new ToolLoopAgent({ id: name, model: chatModel(url), tools: sdkTools(tools) })
    return (await agent.generate({ prompt })).text
  },
  prepare(name) {
    const agent = new OsmosisToolLoopAgent({ id: name, model: rolloutModel() })
    return async () => agent.generate({ prompt: 'go' })
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
  run: async (run) => textOf(run, rolloutModel(run.name)),
  runTwoTurns: async ({ name, prompt, tools }, url) =>
    generateText({
      model: modelOf(name, url),
      prompt,
      tools: sdkTools(tools),
      stopWhen: isStepCount(2),
    }),
  runStructured: async ({ name, prompt }, url) =>
    (await generateText({ model: modelOf(name, url), prompt, output })).output,
  runWithFallback: async (run, url) => textOf(run, withFallback(run.name, url)),
  runOwnModel: async (run, url) => textOf(run, chatModel(url)),
  prepare(name) {
    const model = rolloutModel(name)
    return async () => generateText({ model, prompt: 'go', maxRetries: 0 })
  },
  construct: () => requireRolloutContext('a model'),
  callPlaceholder: async () => generateText({ model: rolloutModel(), prompt: 'go' }),
  exempt: noConstruction,
  concurrentRollouts: 2,
}

export const streaming: AdapterUnderTest = {
  run: async (run) => streamedText(run, rolloutModel(run.name)),
  runTwoTurns: async ({ name, prompt, tools }, url) =>
    streamText({
      model: modelOf(name, url),
      prompt,
      tools: sdkTools(tools),
      stopWhen: isStepCount(2),
    }).text,
  runStructured: async ({ name, prompt }, url) =>
    streamText({ model: modelOf(name, url), prompt, output }).output,
  runWithFallback: async (run, url) => streamedText(run, withFallback(run.name, url)),
  runOwnModel: async (run, url) => streamedText(run, chatModel(url)),
  prepare(name) {
    const model = rolloutModel(name)
    return async () => generateText({ model, prompt: 'go', maxRetries: 0 })
  },
  construct: () => requireRolloutContext('a model'),
  callPlaceholder: async () => streamText({ model: rolloutModel(), prompt: 'go' }).text,
  exempt: noConstruction,
  // The slow tests run hundreds.
  concurrentRollouts: 10,
}
