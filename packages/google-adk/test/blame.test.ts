import {
  BaseLlm,
  FunctionTool,
  InMemoryRunner,
  LlmAgent,
  type LlmResponse,
  setLogger,
} from '@google/adk'
import { OsmosisLlm } from '@osmosis/google-adk'
import { describe, expect, it } from 'vitest'

import { blame, callAdd } from '../../../test/kit/index.ts'

// It writes each error to the console.
setLogger(null)

/** A judge that always calls a tool. */
class Judge extends BaseLlm {
  constructor() {
    super({ model: 'judge' })
  }

  override async *generateContentAsync(): AsyncGenerator<LlmResponse> {
    yield { content: { role: 'model', parts: [{ functionCall: { name: 'add', args: {} } }] } }
  }

  override async connect(): Promise<never> {
    throw new Error('There is no live connection.')
  }
}

const add = new FunctionTool({
  name: 'add',
  description: 'Adds.',
  execute: async () => ({ sum: 3 }),
})

async function runAgent(model: BaseLlm, maxLlmCalls: number): Promise<void> {
  const runner = new InMemoryRunner({
    agent: new LlmAgent({ name: 'agent', model, tools: [add] }),
    appName: 'a',
  })
  const { id: sessionId } = await runner.sessionService.createSession({ appName: 'a', userId: 'u' })
  const newMessage = { role: 'user', parts: [{ text: 'go' }] }
  const events = runner.runAsync({
    userId: 'u',
    sessionId,
    newMessage,
    runConfig: { maxLlmCalls },
  })
  // The ADK makes events of errors.
  for await (const { errorCode, errorMessage } of events) {
    if (errorCode !== undefined) throw new Error(`The agent failed: ${errorMessage}`)
  }
}

const policy = () => new OsmosisLlm('main')

describe('the policy', () => {
  it('is blamed for the limit that it reaches', async () => {
    const run = async () => runAgent(policy(), 2)
    expect(await blame(() => callAdd, run)).toBe('limit_reached: max_llm_calls')
  })

  it('is not blamed for the limit of a judge, also at the same number of calls', async () => {
    for (const limit of [1, 2, 3]) {
      const run = async () => {
        await runAgent(policy(), 10)
        await runAgent(new Judge(), limit)
      }
      expect(await blame([callAdd, callAdd, 'done'], run)).toBe('failure')
    }
  })

  it('is not blamed for an error of the program with the same words', async () => {
    const run = async () => {
      await runAgent(policy(), 10)
      throw new Error('Max number of llm calls limit of 2 exceeded')
    }
    expect(await blame(['done'], run)).toBe('failure')
  })
})
