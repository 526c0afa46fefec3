import { Agent, type Model, OpenAIProvider, run, tool } from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'

import { rolloutOn } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

test('create, clone and the constructor make agents of the policy', async () => {
  await using server = await startPolicyServer(() => 'hi')
  const outputs = await rolloutOn(server).run(async () => {
    const model = new OsmosisRolloutModel()
    const made = new OsmosisAgent({ name: 'made', model })
    const created = OsmosisAgent.create({ name: 'created', model, handoffs: [made] })
    const plain = new OsmosisAgent({ name: 'plain', model: 'gpt-5' })
    const agents = [made, created, made.clone({ name: 'cloned' }), plain.clone({ model })]
    const results = []
    for (const agent of agents) {
      expect(agent).toBeInstanceOf(OsmosisAgent)
      expect(agent).toBeInstanceOf(Agent)
      const { finalOutput } = await run(agent, 'hello', {
        session: new OsmosisMemorySession(),
      })
      results.push([agent.name, finalOutput])
    }
    return results
  })
  expect(outputs).toEqual([
    ['made', 'hi'],
    ['created', 'hi'],
    ['cloned', 'hi'],
    ['plain', 'hi'],
  ])
})

test('an agent of the whole program, and its clones, use the policy in rollouts and the fallback outside', async () => {
  const fallback = new OsmosisRolloutModel({ fallback: 'gpt-4.1' })
  const agent = new OsmosisAgent({ name: 'calculator', model: fallback })
  const created = OsmosisAgent.create({ name: 'created', model: fallback, handoffs: [agent] })
  const agents = [agent, agent.clone({ name: 'cloned' }), created]
  expect(agents.map(({ model }) => model)).toEqual(['gpt-4.1', 'gpt-4.1', 'gpt-4.1'])
  expect(agent.clone({ model: 'gpt-5' }).model).toBe('gpt-5')

  await using server = await startPolicyServer(() => 'from the policy')
  const said = await rolloutOn(server).run(async () => {
    const texts = []
    for (const one of [...agents, agent.clone({ name: 'inside' })]) {
      const { finalOutput } = await run(one, 'hello', { session: new OsmosisMemorySession() })
      texts.push(finalOutput)
    }
    return texts
  })
  expect(said).toEqual(Array.from({ length: 4 }, () => 'from the policy'))
  agent.model = 'gpt-5'
  expect(agent.model).toBe('gpt-5')
})

test('a function as fallback is called once, by the first run outside of rollouts', async () => {
  await using model = await startPolicyServer(() => 'from the model')
  await using policy = await startPolicyServer(() => 'from the policy')
  const provider = new OpenAIProvider({ baseURL: model.url, apiKey: 'key', useResponses: false })
  const own = await provider.getModel('gpt-4.1')
  let made = 0
  const fallback = (): Model => {
    made += 1
    return own
  }
  const placeholder = new OsmosisRolloutModel({ fallback })
  const agent = new OsmosisAgent({ name: 'calculator', model: placeholder })
  const agents = [
    agent,
    agent.clone({ name: 'cloned' }),
    OsmosisAgent.create({ name: 'created', model: placeholder }),
  ]
  await rolloutOn(policy).run(async () => {
    for (const one of agents) await run(one, 'hello', { session: new OsmosisMemorySession() })
  })
  expect({ made, requests: policy.requests.length }).toEqual({ made: 0, requests: 3 })
  for (const one of agents) {
    expect((await run(one, 'hello')).finalOutput).toBe('from the model')
  }
  expect(made).toBe(1)
  expect([model.requests.length, policy.requests.length]).toEqual([3, 3])
})

test('with a model of its own it is a plain agent, outside of rollouts as well', () => {
  const agent = new OsmosisAgent({ name: 'plain', model: 'gpt-5', instructions: 'Be brief.' })
  expect(agent.model).toBe('gpt-5')
  expect(Object.keys(agent).toSorted()).toEqual(
    Object.keys(new Agent({ name: 'plain', model: 'gpt-5' })).toSorted(),
  )
})

test('structured output is requested and parsed', async () => {
  await using server = await startPolicyServer(['{"sum":3}'])
  const result = await rolloutOn(server).run(async () => {
    const agent = new OsmosisAgent({
      name: 'structured',
      model: new OsmosisRolloutModel(),
      outputType: z.object({ sum: z.number() }),
    })
    return run(agent, 'go', { session: new OsmosisMemorySession() })
  })
  expect(result.finalOutput).toEqual({ sum: 3 })
  expect(server.requests[0]?.body['response_format']).toMatchObject({
    type: 'json_schema',
    json_schema: { strict: true, schema: { properties: { sum: { type: 'number' } } } },
  })
})

test('tools are not sent as strict unless the user sends them so', async () => {
  const look = tool({
    name: 'look',
    description: 'Looks.',
    parameters: z.object({ at: z.string() }),
    execute: () => 'seen',
  })
  const strict = {
    type: 'function',
    function: { name: 'look', strict: true, parameters: { type: 'object' } },
  }
  for (const [providerData, expected, constraints] of [
    [undefined, undefined, undefined],
    [{ extra_body: { tools: [strict] } }, true, ['tools.strict']],
  ] as const) {
    await using server = await startPolicyServer(['done'])
    const context = rolloutOn(server)
    await context.run(async () => {
      const agent = new OsmosisAgent({
        name: 'strict',
        model: new OsmosisRolloutModel(),
        tools: [look],
        modelSettings: providerData === undefined ? {} : { providerData },
      })
      await run(agent, 'go', { session: new OsmosisMemorySession() })
    })
    const tools = server.requests[0]?.body['tools']
    expect(tools).toMatchObject([{ function: { name: 'look' } }])
    expect((tools as [{ function: { strict?: boolean } }])[0].function.strict).toBe(expected)
    const [sample] = [...(await context.getSamples()).values()]
    expect(sample?.calls?.[0]?.sampling['constraints']).toEqual(constraints)
  }
})

test('instructions may be a function of the run context', async () => {
  await using server = await startPolicyServer(['hi'])
  await rolloutOn(server).run(async () => {
    const agent = new OsmosisAgent<{ user: string }>({
      name: 'dynamic',
      model: new OsmosisRolloutModel(),
      instructions: ({ context }) => `You talk to ${context.user}.`,
    })
    await run(agent, 'go', { session: new OsmosisMemorySession(), context: { user: 'Ada' } })
  })
  expect(server.requests[0]?.body['messages']).toMatchObject([
    { role: 'system', content: 'You talk to Ada.' },
    { role: 'user' },
  ])
})

test('output guardrails see what the policy said', async () => {
  await using server = await startPolicyServer(['forbidden words'])
  const seen: unknown[] = []
  const guarded = rolloutOn(server).run(async () => {
    const agent = policyAgent({
      outputGuardrails: [
        {
          name: 'clean',
          execute: async ({ agentOutput }) => {
            seen.push(agentOutput)
            return { tripwireTriggered: true, outputInfo: {} }
          },
        },
      ],
    })
    await run(agent, 'go', { session: new OsmosisMemorySession() })
  })
  await expect(guarded).rejects.toThrow('guardrail')
  expect(seen).toEqual(['forbidden words'])
})
