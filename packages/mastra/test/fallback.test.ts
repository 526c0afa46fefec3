import { Agent } from '@mastra/core/agent'
import type { MastraModelConfig } from '@mastra/core/llm'
import { createTool } from '@mastra/core/tools'
import { rolloutModel } from '@osmosis/mastra'
import { type PolicyServer, startPolicyServer } from '@osmosis/testing'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import { callAdd, messagesOf, rolloutOn } from '../../../test/kit/index.ts'

type AgentModel = ConstructorParameters<typeof Agent>[0]['model']

const own = (url: string): MastraModelConfig => ({ id: 'provider/gpt-4.1', url, apiKey: 'key' })

/** Calls the tool `add` once where it can, and then answers with JSON. */
const startModel = async (): Promise<PolicyServer> =>
  startPolicyServer((request) => {
    const isFirst = messagesOf(request).every(({ role }) => role !== 'tool')
    return isFirst && request.body['tools'] !== undefined ? callAdd : '{"sum":3}'
  })

const add = createTool({
  id: 'add',
  description: 'Adds two numbers.',
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => ({ sum: a + b }),
})

const agentOf = (model: AgentModel, tools = {}): Agent =>
  new Agent({ id: 'main', name: 'Main', instructions: 'Add.', model, tools })

/** Programs of users, each of a model. */
const programs: Readonly<Record<string, (model: AgentModel) => Promise<unknown>>> = {
  'a text with settings': async (model) =>
    agentOf(model).generate('go', { modelSettings: { temperature: 0.5, maxOutputTokens: 64 } }),
  'an agent with tools': async (model) => agentOf(model, { add }).generate('go'),
  'a stream with tools': async (model) => {
    const output = await agentOf(model, { add }).stream('go')
    await output.consumeStream()
  },
  'an object': async (model) =>
    agentOf(model).generate('go', {
      structuredOutput: { schema: z.object({ sum: z.number() }) },
    }),
  'a longer conversation': async (model) =>
    agentOf(model).generate([
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'two' },
      { role: 'user', content: 'three' },
    ]),
}

describe('outside of rollouts, a model with a fallback sends the requests of the fallback alone:', () => {
  it.each(Object.entries(programs))('%s', async (_what, program) => {
    await using server = await startModel()
    await program(own(server.url))
    const expected = server.requests.map(({ body }) => body)
    expect(expected).not.toEqual([])
    await program(rolloutModel({ name: 'main', fallback: () => own(server.url) }))
    expect(server.requests.slice(expected.length).map(({ body }) => body)).toEqual(expected)
  })
})

it('a function as fallback is called once, and not where rollouts run', async () => {
  await using server = await startModel()
  await using policy = await startPolicyServer(() => 'done')
  let made = 0
  const fallback = (): MastraModelConfig => {
    made += 1
    return own(server.url)
  }
  const agent = agentOf(rolloutModel({ name: 'main', fallback }), { add })
  await rolloutOn(policy).run(async () => agent.generate('go'))
  expect({ made, requests: policy.requests.length }).toEqual({ made: 0, requests: 1 })
  await agent.generate('go')
  await agent.generate('go')
  expect(made).toBe(1)
  expect(policy.requests).toHaveLength(1)
})
