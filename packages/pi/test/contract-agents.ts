import { Agent, type StreamFn } from '@earendil-works/pi-agent-core'
import { type Api, type Model, normalizeContext } from '@earendil-works/pi-ai'
import { streamSimple } from '@earendil-works/pi-ai/api/openai-completions'
import { lastAssistantText, requireRolloutContext } from '@osmosis/core'
import { recordOf } from '@osmosis/core/workflow'
import { rolloutStreamFn } from '@osmosis/pi'
import type { AdapterUnderTest, ContractRun } from '@osmosis/testing'
import { Type } from 'typebox'

async function run(
  { name, prompt, tools = [], signal }: ContractRun,
  streamFn = rolloutStreamFn(name),
): Promise<string> {
  const agent = new Agent({
    streamFn,
    initialState: {
      tools: tools.map(({ name: tool, description, parameters, execute }) => ({
        name: tool,
        label: tool,
        description,
        parameters: Type.Unsafe<object>(parameters),
        execute: async (_id, input) => ({
          content: [{ type: 'text', text: await execute(input) }],
          details: {},
        }),
      })),
    },
  })
  signal?.addEventListener('abort', () => agent.abort())
  await agent.prompt(prompt)
  const { errorMessage, messages } = agent.state
  // Pi never throws an error of its model; the rollout has it.
  if (errorMessage !== undefined) {
    recordOf(requireRolloutContext('The agent')).throwUnnoticedError()
    throw new Error(errorMessage)
  }
  return lastAssistantText({ messages })
}

function ownStreamFn(baseUrl: string): StreamFn {
  const model: Model<'openai-completions'> = {
    id: 'gpt-4.1',
    name: 'GPT-4.1',
    api: 'openai-completions',
    provider: 'openai',
    baseUrl,
    reasoning: false,
    input: ['text'],
    cost: { input: 2, output: 8, cacheRead: 0.5, cacheWrite: 0 },
    contextWindow: 1_000_000,
    maxTokens: 4096,
  }
  return (_model, context, options) => streamSimple(model, context, { ...options, apiKey: 'key' })
}

export const prompting: AdapterUnderTest = {
  run: async (once) => run(once),
  runWithFallback: async (once, url) =>
    run(once, rolloutStreamFn({ name: once.name, fallback: ownStreamFn(url) })),
  runOwnModel: async (once, url) => run(once, ownStreamFn(url)),
  prepare(name) {
    const agent = new Agent({ streamFn: rolloutStreamFn(name) })
    return async () => agent.prompt('go')
  },
  construct: () => requireRolloutContext('The agent'),
  callPlaceholder: () => {
    const streamFn = rolloutStreamFn('outside')
    const model = new Agent({ streamFn }).state.model as Model<Api>
    return streamFn(model, normalizeContext({ messages: [] }))
  },
  exempt: {
    'names-agents-without-calls':
      'a stream function is known to the rollout from its first call on',
    'grades-turn-limits': 'Pi has no limit of turns',
    'grades-wrong-output': 'Pi has no structured output',
    'logs-tool-errors': 'Pi keeps only the message of what a tool threw',
    'refuses-duplicates': 'stream functions of one name are one sample',
  },
  concurrentRollouts: 20,
}
