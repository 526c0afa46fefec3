import { Mastra } from '@mastra/core'
import { Agent } from '@mastra/core/agent'
import { MockMemory } from '@mastra/core/memory'
import { RequestContext } from '@mastra/core/request-context'
import { createTool } from '@mastra/core/tools'
import { getRolloutContext } from '@osmosis/core'
import { rolloutMemory, rolloutModel } from '@osmosis/mastra'
import { startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'
import { z } from 'zod'

import { blame, messagesOf, rolloutOn, sampleIds, sampleOf } from '../../../test/kit/index.ts'

// What docs/frameworks/mastra.md says about parts that many programs of Mastra have.

const schema = z.object({ number: z.number() })
const fallback = { id: 'openai/gpt-4.1', apiKey: 'key' } as const
const gold = new RequestContext()
gold.set('tier', 'gold')

it('an agent that is registered in a Mastra stays in its file', async () => {
  const support = new Agent({
    id: 'support',
    name: 'Support',
    instructions: '',
    model: rolloutModel({ name: 'main', fallback }),
  })
  const mastra = new Mastra({ agents: { support }, logger: false })
  await using server = await startPolicyServer(['from the policy'])
  const answer = await rolloutOn(server).run(async () => mastra.getAgent('support').generate('go'))
  expect(answer.text).toBe('from the policy')
})

it('instructions and tools get the request context of a rollout', async () => {
  const seen: unknown[] = []
  const look = createTool({
    id: 'look',
    description: 'Looks.',
    inputSchema: z.object({}),
    execute: async (_input, { requestContext }) => {
      seen.push(requestContext?.get('tier'))
      return 'nothing'
    },
  })
  const agent = new Agent({
    id: 'main',
    name: 'Main',
    instructions: ({ requestContext }) => `They have ${String(requestContext.get('tier'))}.`,
    model: rolloutModel({ name: 'main', fallback }),
    tools: { look },
  })
  await using server = await startPolicyServer([
    { toolCalls: [{ name: 'look', arguments: {} }] },
    'done',
  ])
  await rolloutOn(server).run(async () => agent.generate('go', { requestContext: gold }))
  expect(seen).toEqual(['gold'])
  const [request] = server.requests
  expect(request && messagesOf(request)[0]?.content).toBe('They have gold.')
})

it('a function that chooses the model by the request context chooses the policy in a rollout', async () => {
  const policy = rolloutModel('main')
  const agent = new Agent({
    id: 'main',
    name: 'Main',
    instructions: '',
    model: ({ requestContext }) => {
      if (getRolloutContext() !== undefined) return policy
      return requestContext.get('tier') === 'gold' ? fallback : 'openai/gpt-4.1-mini'
    },
  })
  await using server = await startPolicyServer(['from the policy'])
  const { text } = await rolloutOn(server).run(async () =>
    agent.generate('go', { requestContext: gold }),
  )
  expect(text).toBe('from the policy')
  expect((await agent.getModel({ requestContext: gold })).modelId).toBe('gpt-4.1')
})

it.each([
  ['a sample of its own', {}, ['main', 'structure']],
  ['no sample when it is not trainable', { trainable: false, purpose: 'structure' }, ['main']],
])('the model that makes the object has %s', async (_what, settings, samples) => {
  const agent = new Agent({
    id: 'main',
    name: 'Main',
    instructions: '',
    model: rolloutModel('main'),
  })
  await using server = await startPolicyServer(({ headers }) =>
    headers['x-sample-id'] === 'structure' ? '{"number":7}' : 'It is seven.',
  )
  const rollout = rolloutOn(server)
  const { object, text } = await rollout.run(async () => {
    const model = rolloutModel({ name: 'structure', ...settings })
    return agent.generate('go', { structuredOutput: { schema, model } })
  })
  expect([object, text]).toEqual([{ number: 7 }, 'It is seven.'])
  expect(sampleIds(server)).toEqual(['main', 'structure'])
  expect([...(await rollout.getSamples()).keys()]).toEqual(samples)
})

it.each([
  ['warn', { errorStrategy: 'warn' as const }, undefined],
  ['fallback', { errorStrategy: 'fallback' as const, fallbackValue: { number: 0 } }, { number: 0 }],
])('with errorStrategy %s the run goes on after a plain text', async (_, strategy, object) => {
  const agent = new Agent({
    id: 'main',
    name: 'Main',
    instructions: '',
    model: rolloutModel('main'),
  })
  let made: unknown
  const blamed = await blame(['not json'], async () => {
    const answer = await agent.generate('go', { structuredOutput: { schema, ...strategy } })
    made = answer.object
  })
  expect([made, blamed]).toEqual([object, 'nobody'])
})

it('working memory is of one rollout, and its change begins a new conversation', async () => {
  const agent = new Agent({
    id: 'main',
    name: 'Main',
    instructions: '',
    model: rolloutModel('main'),
    memory: new MockMemory({ enableWorkingMemory: true, options: { lastMessages: 20 } }),
  })
  const memory = { name: 'updateWorkingMemory', arguments: { memory: 'They are called Ann.' } }
  await using server = await startPolicyServer([{ toolCalls: [memory] }, 'Hello.', 'Ann.', 'Who?'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    await agent.generate('I am Ann.', { memory: rolloutMemory() })
    await agent.generate('Who am I?', { memory: rolloutMemory() })
  })
  await rolloutOn(server).run(async () => agent.generate('Who?', { memory: rolloutMemory() }))
  const knows = server.requests.map((request) =>
    JSON.stringify(messagesOf(request)[0]).includes('Ann'),
  )
  expect(knows).toEqual([false, false, true, false])
  const { calls } = await sampleOf(rollout)
  expect(calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, true, false])
})
