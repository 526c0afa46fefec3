import { isOsmosisError } from '@osmosis/core'
import { OsmosisRolloutModel, OsmosisStrandsAgent, type SamplingParams } from '@osmosis/strands'
import { fault, startPolicyServer } from '@osmosis/testing'
import { Agent, ConcurrentInvocationError, type Model } from '@strands-agents/sdk'
import { describe, expect, test, vi } from 'vitest'

import { rolloutOn, sampleIds } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

const nowhere = { url: 'http://policy.invalid' }

/** Code and message of what `body` throws, itself or wrapped by Strands. */
async function refusal(body: () => unknown): Promise<string> {
  try {
    await body()
  } catch (error) {
    const known = isOsmosisError(error) ? error : (error as Error).cause
    if (isOsmosisError(known)) return `${known.code}: ${known.message}`
    throw error
  }
  throw new Error('nothing was refused')
}

describe('params', () => {
  test.each([
    ['maxTokens', /write "max_tokens" instead of "maxTokens"/],
    ['topP', /write "top_p" instead of "topP"/],
    ['model', /"model" .* the rollout decides which policy answers/],
    ['modelId', /"modelId" .* the rollout decides which policy answers/],
    ['messages', /Leave it out/],
    ['stream', /Leave it out/],
    ['tools', /Leave it out/],
    ['tool_choice', /Leave it out/],
    ['n', /Leave it out/],
    ['api_key', /Leave it out/],
    ['baseUrl', /Leave it out/],
  ])('refuse %s and say what to do', async (name, hint) => {
    const create = (params: SamplingParams) => async () =>
      refusal(() => new OsmosisRolloutModel({ params }))
    const refused = await create({ [name]: 1 })()
    expect(refused).toMatch(/^invalid_config: /)
    expect(refused).toMatch(hint)
    expect(await create({ extra_body: { [name]: 1 } })()).toBe(refused)
  })

  test.each([{ 'x-name': 'Zoë' }, { 'x-name': 'a\r\nb' }, { 'bad name': 'x' }])(
    'refuse headers that cannot be sent: %j',
    async (extra_headers) => {
      const refused = await refusal(() => new OsmosisRolloutModel({ params: { extra_headers } }))
      expect(refused).toMatch(/^invalid_config: The header ".+" in extra_headers/)
    },
  )

  test('cannot be changed afterwards', () => {
    const params = { temperature: 1 }
    const model = new OsmosisRolloutModel({ params })
    params.temperature = 2
    expect(model.params).toEqual({ temperature: 1 })
    expect(Object.isFrozen(model.params)).toBe(true)
  })
})

describe('the placeholder model', () => {
  test('an agent of its fallback is refused in a rollout', async () => {
    const fallback = new OsmosisRolloutModel()
    const agent = new OsmosisStrandsAgent({ model: new OsmosisRolloutModel({ fallback }) })
    const invoked = refusal(async () => rolloutOn(nowhere).run(async () => agent.invoke('go')))
    expect(await invoked).toMatch(/^wrong_rollout_context: .*inside AgentWorkflow\.run\(\)/)
  })

  test('calls a function as fallback once, when the first agent is made outside of rollouts', async () => {
    await using server = await startPolicyServer(() => 'hi')
    let made = 0
    const fallback = (): Model => {
      made += 1
      return new OsmosisRolloutModel()
    }
    const model = new OsmosisRolloutModel({ fallback })
    await rolloutOn(server).run(async () => new OsmosisStrandsAgent({ model }).invoke('go'))
    expect({ made, requests: server.requests.length }).toEqual({ made: 0, requests: 1 })
    const agents = [new OsmosisStrandsAgent({ model }), new OsmosisStrandsAgent({ model })]
    expect(agents.map((agent) => agent.model)).toEqual([model.fallback, model.fallback])
    expect(made).toBe(1)
  })

  test('answers nothing itself', async () => {
    const message =
      /^placeholder_model: OsmosisRolloutModel is a placeholder .* Pass it as the `model` of an OsmosisStrandsAgent/
    const model = new OsmosisRolloutModel()
    const agent = new Agent({ model, printer: false })
    expect(await refusal(async () => agent.invoke('go'))).toMatch(message)
    expect(await refusal(async () => model.stream().next())).toMatch(message)
    expect(await refusal(() => model.updateConfig())).toMatch(message)
  })

  test('serves any number of agents and rollouts', async () => {
    await using server = await startPolicyServer(() => 'hi')
    const model = new OsmosisRolloutModel({ params: { temperature: 1 } })
    for (const rolloutId of ['one', 'two']) {
      await rolloutOn(server, rolloutId).run(async () => {
        for (const name of ['a', 'b']) await policyAgent({ name, model }).invoke('go')
      })
    }
    const ids = server.requests.map(({ headers }) => [
      headers['x-rollout-id'],
      headers['x-sample-id'],
    ])
    expect(ids).toEqual([
      ['one', 'a'],
      ['one', 'b'],
      ['two', 'a'],
      ['two', 'b'],
    ])
  })

  test('of another loaded copy of this package is recognised', async () => {
    vi.resetModules()
    const copy = await import('@osmosis/strands')
    expect(copy.OsmosisRolloutModel).not.toBe(OsmosisRolloutModel)
    await using server = await startPolicyServer([
      { toolCalls: [{ id: 'c', name: 'x', arguments: '{"' }] },
      'hi',
    ])
    const rollout = rolloutOn(server)
    await rollout.run(async () =>
      policyAgent({ model: new copy.OsmosisRolloutModel() }).invoke('go'),
    )
    expect(sampleIds(server)).toEqual(['main', 'main'])
    expect(server.requests[1]?.rawBody).toContain('tool arguments are not valid JSON')
  })

  test('may be subclassed to change what its model is', async () => {
    class Sharper extends OsmosisRolloutModel {
      override forSample(...args: Parameters<OsmosisRolloutModel['forSample']>) {
        const model = super.forSample(...args)
        model.updateConfig({ temperature: 0 })
        return model
      }
    }
    await using server = await startPolicyServer(['hi'])
    await rolloutOn(server).run(async () => policyAgent({ model: new Sharper() }).invoke('go'))
    expect(server.requests[0]?.body).toMatchObject({ temperature: 0 })
  })
})

describe('the sample id', () => {
  test('is the name, else the id, else random', async () => {
    const rollout = rolloutOn(nowhere)
    const ids = rollout.run(() =>
      [{ name: 'n', id: 'i' }, { id: 'i' }, {}, {}].map(
        (config) =>
          new OsmosisStrandsAgent({ model: new OsmosisRolloutModel(), ...config }).sampleId,
      ),
    )
    expect(ids).toEqual([
      'n',
      'i',
      expect.stringMatching(/^\w{32}$/),
      expect.stringMatching(/^\w{32}$/),
    ])
    expect(new Set(ids).size).toBe(4)
    expect(rollout.sampleSourceNames).toEqual(ids)
  })

  test('can travel in a header', async () => {
    const made = async () => refusal(() => policyAgent({ name: 'plänner' }))
    expect(await rolloutOn(nowhere).run(made)).toMatch(/^invalid_id: The sample id "plänner"/)
  })

  test('is not reserved by an agent whose config is refused', async () => {
    const rollout = rolloutOn(nowhere)
    rollout.run(() =>
      expect(() => policyAgent({ toolExecutor: 'nonsense' as never })).toThrow('nonsense'),
    )
    expect([...(await rollout.getSamples()).keys()]).toEqual([])
  })
})

test('an agent of another rollout is refused', async () => {
  const agent = rolloutOn(nowhere, 'there').run(() => policyAgent())
  const here = rolloutOn(nowhere, 'here')
  expect(await here.run(async () => refusal(async () => agent.invoke('go')))).toMatch(
    /^wrong_rollout_context: An OsmosisStrandsAgent of rollout "there" was used inside rollout "here"\. .*AsyncResource\.bind/,
  )
})

test('an agent with an empty conversation fails and names what to pass', async () => {
  const rollout = rolloutOn(nowhere)
  expect(await rollout.run(async () => refusal(async () => policyAgent().invoke()))).toBe(
    'invalid_request: The conversation of the agent is empty: pass `messages: ctx.prompt` to the agent, or an input to invoke().',
  )
})

test('a second invocation concurrently is refused by Strands and leaves no trace', async () => {
  await using server = await startPolicyServer([fault.on('hi', { delayMs: 20 })])
  await rolloutOn(server).run(async () => {
    const agent = policyAgent()
    const first = agent.invoke('one')
    await server.waitForRequest(0)
    const second = agent.invoke([
      { role: 'system', content: 'Other.' },
      { role: 'user', content: 'two' },
    ])
    await expect(second).rejects.toBeInstanceOf(ConcurrentInvocationError)
    await first
    expect(agent.systemPrompt).toBeUndefined()
  })
  expect(server.requests).toHaveLength(1)
})
