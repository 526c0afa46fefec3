import { OsmosisRolloutModel } from '@osmosis/strands'
import { type ReceivedRequest, startPolicyServer } from '@osmosis/testing'
import { FunctionTool, GuardContentBlock, TextBlock } from '@strands-agents/sdk'
import { describe, expect, test } from 'vitest'

import { messagesOf, rolloutOn } from '../../../test/kit/index.ts'
import { addTool, policyAgent } from './rollout.ts'

/** The request that an agent of this kind makes. */
async function requestOf(
  config: Parameters<typeof policyAgent>[0],
  change?: (agent: ReturnType<typeof policyAgent>) => void,
): Promise<ReceivedRequest> {
  await using server = await startPolicyServer(['hi'])
  await rolloutOn(server).run(async () => {
    const agent = policyAgent(config)
    change?.(agent)
    await agent.invoke('hello')
  })
  return await server.waitForRequest(0)
}

test('a model says what its calls are for, and whether they are training data', async () => {
  const model = new OsmosisRolloutModel({ purpose: 'title', trainable: false })
  const { headers } = await requestOf({ model })
  expect(headers).toMatchObject({ 'x-osmosis-purpose': 'title', 'x-osmosis-trainable': 'false' })
})

describe('params', () => {
  test('go into the body under their own names, extra_body and extra_headers too', async () => {
    const model = new OsmosisRolloutModel({
      params: {
        temperature: 0.5,
        max_tokens: 4096,
        stop: ['END'],
        seed: null,
        top_k: 20,
        extra_body: { chat_template_kwargs: { enable_thinking: true }, min_p: null },
        extra_headers: {
          'x-trace': 'abc',
          'x-sample-id': 'forged',
          authorization: 'Bearer forged',
        },
      },
    })
    const { body, headers } = await requestOf({ model })
    const { messages, ...settings } = body
    expect(settings).toEqual({
      model: 'osmosis-rollout',
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0.5,
      max_tokens: 4096,
      stop: ['END'],
      top_k: 20,
      chat_template_kwargs: { enable_thinking: true },
    })
    expect(messages).toEqual([{ role: 'user', content: 'hello' }])
    expect(headers).toMatchObject({
      'x-trace': 'abc',
      'x-sample-id': 'main',
      'x-rollout-id': 'rollout-1',
      authorization: 'Bearer key',
    })
  })

  test('are the config that the model of the agent reports', async () => {
    const params = { temperature: 0.5, top_p: 0.9, max_completion_tokens: 100 }
    const model = new OsmosisRolloutModel({ params })
    await requestOf({ model }, (agent) => {
      expect(agent.model.getConfig()).toEqual({
        modelId: 'osmosis-rollout',
        temperature: 0.5,
        topP: 0.9,
        maxTokens: 100,
      })
    })
  })

  test('are overridden by updateConfig of the model, for that agent only', async () => {
    const model = new OsmosisRolloutModel({ params: { temperature: 0.5, max_tokens: 10 } })
    const { body } = await requestOf({ model }, (agent) =>
      agent.model.updateConfig({ temperature: 0, topP: 0.1, maxTokens: 20 }),
    )
    expect(body).toMatchObject({ temperature: 0, top_p: 0.1, max_tokens: 20 })
    expect((await requestOf({ model })).body).toMatchObject({ temperature: 0.5, max_tokens: 10 })
  })
})

describe('tools', () => {
  test('go out with their names, descriptions and schemas', async () => {
    const bare = new FunctionTool({ name: 'bare', description: 'Nothing.', callback: () => 'x' })
    const { body } = await requestOf({ tools: [[addTool()], bare] })
    expect(body['tools']).toMatchObject([
      {
        type: 'function',
        function: {
          name: 'add',
          description: 'Adds two numbers.',
          parameters: { type: 'object', required: ['a', 'b'] },
        },
      },
      {
        type: 'function',
        function: { name: 'bare', parameters: { type: 'object', properties: {} } },
      },
    ])
    expect(body).not.toHaveProperty('tool_choice')
  })

  test('are left out when there are none', async () => {
    expect((await requestOf({})).body).not.toHaveProperty('tools')
  })

  test('give what they return as text, empty text and errors included', async () => {
    const results: Record<string, () => never | string | object> = {
      empty: () => '',
      object: () => ({ sum: 3 }),
      broken: () => {
        throw new Error('out of order')
      },
    }
    const names = Object.keys(results)
    await using server = await startPolicyServer([
      { toolCalls: names.map((name) => ({ id: name, name, arguments: '{}' })) },
      'done',
    ])
    await rolloutOn(server).run(async () => {
      const tools = names.map(
        (name) =>
          new FunctionTool({
            name,
            description: name,
            callback: () => results[name]?.() as string,
          }),
      )
      await policyAgent({ tools }).invoke('go')
    })
    expect(messagesOf(server.requests[1]).slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'empty', content: '' },
      { role: 'tool', tool_call_id: 'object', content: '{"sum":3}' },
      { role: 'tool', tool_call_id: 'broken', content: '[ERROR] Error: out of order' },
    ])
  })
})

describe('the system prompt', () => {
  test('made of blocks is one text', async () => {
    const request = await requestOf({
      systemPrompt: [
        new TextBlock('Be '),
        { cachePoint: { cacheType: 'default' } },
        new GuardContentBlock({ text: { text: 'exact.', qualifiers: ['query'] } }),
      ] as never,
    })
    expect(messagesOf(request)[0]).toEqual({ role: 'system', content: 'Be exact.' })
  })

  test('that is empty adds no message', async () => {
    expect(messagesOf(await requestOf({ systemPrompt: '' }))).toEqual([
      { role: 'user', content: 'hello' },
    ])
  })
})
