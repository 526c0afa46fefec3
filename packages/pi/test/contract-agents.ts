import { Agent } from '@earendil-works/pi-agent-core'
import { type Api, type Model, normalizeContext } from '@earendil-works/pi-ai'
import { lastAssistantText, requireRolloutContext } from '@osmosis/core'
import { rolloutStreamFn } from '@osmosis/pi'
import type { AdapterUnderTest, ContractRun } from '@osmosis/testing'
import { Type } from 'typebox'

async function run({ name, prompt, tools = [], signal }: ContractRun): Promise<string> {
  const streamFn = rolloutStreamFn(name)
  const agent = new Agent({
    streamFn,
    initialState: {
      tools: tools.map(({ name: tool, description, parameters, execute }) => ({
        name: tool,
        label: tool,
        description,
        parameters: Type.Unsafe<object>(parameters),
        execute: async (_id, input) => ({
          content: [{ type: 'text', text: execute(input) }],
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
    requireRolloutContext('The agent').throwUnnoticedError()
    throw new Error(errorMessage)
  }
  return lastAssistantText({ messages })
}

export const prompting: AdapterUnderTest = {
  run,
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
    'refuses-duplicates': 'stream functions of one name are one sample',
  },
  concurrentRollouts: 20,
}
