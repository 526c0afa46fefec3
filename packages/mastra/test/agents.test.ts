import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { createStep, createWorkflow } from '@mastra/core/workflows'
import { getRolloutContext } from '@osmosis/core'
import { rolloutModel } from '@osmosis/mastra'
import { startPolicyServer } from '@osmosis/testing'
import { expect, it, vi } from 'vitest'
import { z } from 'zod'

import { messagesOf, rolloutOn, sampleIds, sampleOf } from '../../../test/kit/index.ts'

const agent = new Agent({ id: 'main', name: 'Main', instructions: '', model: rolloutModel('main') })

it('an agent at the top of a module serves many rollouts', async () => {
  await using server = await startPolicyServer(
    (request) => `said to ${String(request.headers['x-rollout-id'])}`,
  )
  const rollouts = Array.from({ length: 30 }, (_unused, n) => rolloutOn(server, `rollout-${n}`))
  await Promise.all(
    rollouts.map(async (rollout) => rollout.run(async () => agent.generate(rollout.rolloutId))),
  )
  expect(server.requests).toHaveLength(30)
  for (const rollout of rollouts) {
    const { messages, trajectoryMessages } = await sampleOf(rollout)
    expect(trajectoryMessages).toEqual([
      { role: 'user', content: rollout.rolloutId },
      { role: 'assistant', content: `said to ${rollout.rolloutId}` },
    ])
    expect(messages).toMatchObject([
      { role: 'user', content: [{ type: 'text', text: rollout.rolloutId }] },
      { role: 'assistant', content: [{ type: 'text', text: `said to ${rollout.rolloutId}` }] },
    ])
  }
})

it('agents of an agent have samples of their own', async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  const critic = new Agent({
    id: 'critic',
    name: 'Critic',
    description: 'Finds mistakes.',
    instructions: 'You are the critic.',
    model: rolloutModel('critic'),
  })
  const writer = new Agent({
    id: 'writer',
    name: 'Writer',
    instructions: 'You are the writer.',
    model: rolloutModel('writer'),
    agents: { critic },
  })
  await using server = await startPolicyServer((request) => {
    if (request.headers['x-sample-id'] === 'critic') return 'no mistakes'
    if (messagesOf(request).some(({ role }) => role === 'tool')) return 'done'
    return { toolCalls: [{ name: 'agent-critic', arguments: { prompt: 'is 2 right?' } }] }
  })
  const rollout = rolloutOn(server)
  await rollout.run(async () => writer.generate('go'))
  expect(sampleIds(server)).toEqual(['writer', 'critic', 'writer'])
  const samples = await rollout.getSamples()
  expect([...samples.keys()]).toEqual(['writer', 'critic'])
  // Mastra shows it what its caller has heard so far as well.
  const said = samples.get('critic')?.trajectoryMessages ?? []
  expect(said[0]).toEqual({ role: 'system', content: 'You are the critic.' })
  expect(said.slice(-2)).toEqual([
    { role: 'user', content: 'is 2 right?' },
    { role: 'assistant', content: 'no mistakes' },
  ])
})

it('the agents of the steps of a workflow find the rollout', async () => {
  const ask = createStep({
    id: 'ask',
    inputSchema: z.object({ question: z.string() }),
    outputSchema: z.object({ answer: z.string() }),
    execute: async ({ inputData }) => ({ answer: (await agent.generate(inputData.question)).text }),
  })
  const workflow = createWorkflow({
    id: 'asking',
    inputSchema: z.object({ question: z.string() }),
    outputSchema: z.object({ answer: z.string() }),
  })
    .then(ask)
    .commit()
  await using server = await startPolicyServer(({ headers }) => String(headers['x-rollout-id']))
  const rollouts = Array.from({ length: 5 }, (_unused, n) => rolloutOn(server, `rollout-${n}`))
  const answers = await Promise.all(
    rollouts.map(async (rollout) =>
      rollout.run(async () => {
        const run = await workflow.createRun()
        const result = await run.start({ inputData: { question: 'who?' } })
        return result.status === 'success' ? result.result.answer : result.status
      }),
    ),
  )
  expect(answers).toEqual(rollouts.map(({ rolloutId }) => rolloutId))
  for (const rollout of rollouts) expect((await sampleOf(rollout)).calls).toHaveLength(1)
})

it('tools run in the rollout of their agent', async () => {
  const seen: unknown[] = []
  const look = createTool({
    id: 'look',
    description: 'Looks.',
    inputSchema: z.object({}),
    execute: async () => {
      seen.push(getRolloutContext()?.rolloutId)
      return 'nothing'
    },
  })
  const looking = new Agent({
    id: 'main',
    name: 'Main',
    instructions: '',
    model: rolloutModel('main'),
    tools: { look },
  })
  await using server = await startPolicyServer([
    { toolCalls: [{ name: 'look', arguments: {} }] },
    'done',
  ])
  await rolloutOn(server).run(async () => looking.generate('go'))
  expect(seen).toEqual(['rollout-1'])
})

it.each(['generate', 'stream'] as const)(
  'what the policy says again with each call of a tool goes back to it: %s',
  async (how) => {
    const look = createTool({
      id: 'look',
      description: 'Looks.',
      inputSchema: z.object({ at: z.number() }),
      execute: async ({ at }) => ({ at }),
    })
    const looking = new Agent({
      id: 'main',
      name: 'Main',
      instructions: '',
      model: rolloutModel('main'),
      tools: { look },
    })
    const calls = [1, 2, 3].map((at) => ({
      content: 'Let me look.',
      toolCalls: [{ id: `c${at}`, name: 'look', arguments: { at } }],
    }))
    await using server = await startPolicyServer([...calls, 'done'])
    const rollout = rolloutOn(server)
    await rollout.run(async () => {
      if (how === 'generate') await looking.generate('go')
      else await (await looking.stream('go')).consumeStream()
    })
    const { trajectoryMessages, calls: made } = await sampleOf(rollout)
    expect(made.map(({ extendsPrevious }) => extendsPrevious)).toEqual(Array(4).fill(true))
    const said = trajectoryMessages?.filter(({ role }) => role === 'assistant')
    expect(said?.map(({ content }) => content)).toEqual([...Array(3).fill('Let me look.'), 'done'])
  },
)

it('structured outputs reach the policy', async () => {
  const answer = z.object({ number: z.number() })
  await using server = await startPolicyServer(['{ "number": 7.0 }'])
  const rollout = rolloutOn(server)
  const { object } = await rollout.run(async () =>
    agent.generate('go', { structuredOutput: { schema: answer } }),
  )
  expect(object).toEqual({ number: 7 })
  expect(server.requests[0]?.body['response_format']).toMatchObject({
    type: 'json_schema',
    json_schema: { schema: { properties: { number: { type: 'number' } } } },
  })
  const { trajectoryMessages } = await sampleOf(rollout)
  expect(trajectoryMessages?.at(-1)).toEqual({ role: 'assistant', content: '{ "number": 7.0 }' })
})

it('a program that also serves users chooses its model by whether it is in a rollout', async () => {
  const policy = rolloutModel('main')
  const both = new Agent({
    id: 'main',
    name: 'Main',
    instructions: '',
    model: () => (getRolloutContext() ? policy : 'openai/gpt-4.1'),
  })
  await using server = await startPolicyServer(['from the policy'])
  const { text } = await rolloutOn(server).run(async () => both.generate('go'))
  expect(text).toBe('from the policy')
  expect((await both.getModel()).provider).toContain('openai')
})
