import { Agent, type AgentConfig } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { requireRolloutContext } from '@osmosis/core'
import { rolloutModel } from '@osmosis/mastra'
import type { AdapterUnderTest, ContractRun } from '@osmosis/testing'
import { z } from 'zod'

const chatModel = (url: string) => ({ id: 'provider/gpt-4.1', url, apiKey: 'key' }) as const

const modelOf = (name: string, url: string | undefined): AgentConfig['model'] =>
  url === undefined ? rolloutModel(name) : chatModel(url)

function agentOf(
  { name, tools = [] }: ContractRun,
  model: AgentConfig['model'] = rolloutModel(name),
): Agent {
  return new Agent({
    id: name,
    name,
    instructions: '',
    model,
    tools: Object.fromEntries(
      tools.map(({ name: id, description, parameters, execute }) => [
        id,
        createTool({
          id,
          description,
          inputSchema: parameters,
          execute: async (input: unknown) => execute(input),
        }),
      ]),
    ),
  })
}

const options = ({ signal }: ContractRun) => ({
  maxSteps: 20,
  ...(signal ? { abortSignal: signal } : {}),
})

async function generate(run: ContractRun): Promise<string> {
  const { text } = await agentOf(run).generate(run.prompt, options(run))
  return text
}

async function stream(run: ContractRun): Promise<string> {
  const output = await agentOf(run).stream(run.prompt, options(run))
  let said = ''
  for await (const text of output.textStream) said += text
  // The stream of texts ends without an error.
  if (output.error) throw output.error
  return said
}

function underTest(run: AdapterUnderTest['run']): AdapterUnderTest {
  return {
    run,
    runTwoTurns: async (two, url) =>
      agentOf(two, modelOf(two.name, url)).generate(two.prompt, { maxSteps: 2 }),
    async runStructured({ name, prompt }, url) {
      const structuredOutput = { schema: z.object({ sum: z.number() }) }
      const agent = agentOf({ name, prompt }, modelOf(name, url))
      return (await agent.generate(prompt, { structuredOutput })).object
    },
    async runWithFallback(of, url) {
      const model = rolloutModel({ name: of.name, fallback: () => chatModel(url) })
      return (await agentOf(of, model).generate(of.prompt)).text
    },
    runOwnModel: async (of, url) => (await agentOf(of, chatModel(url)).generate(of.prompt)).text,
    prepare(name) {
      const agent = agentOf({ name, prompt: 'go' })
      return async () => agent.generate('go')
    },
    construct: () => requireRolloutContext('The agent'),
    callPlaceholder: async () => run({ name: 'solver', prompt: 'go' }),
    exempt: {
      'names-agents-without-calls': 'a model is known to the rollout from its first call on',
      'logs-tool-errors': 'only exporters of a Mastra instance see what a tool threw',
      'refuses-duplicates': 'models of one name are one sample',
    },
    concurrentRollouts: 2,
  }
}

export const generating = underTest(generate)
export const streaming = underTest(stream)
