import { run } from '@openai/agents'
import { OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { afterEach, expect, test, vi } from 'vitest'

import { callAdd, rolloutOn } from '../../../test/kit/index.ts'
import { addTool, policyAgent } from './rollout.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

test('a request holds nothing but what the agent says', async () => {
  await using server = await startPolicyServer(['hi'])
  await rolloutOn(server).run(async () =>
    run(policyAgent({ instructions: 'Be brief.' }), 'hello', {
      session: new OsmosisMemorySession(),
    }),
  )
  expect(server.requests[0]?.body).toEqual({
    model: 'osmosis-rollout',
    stream: true,
    stream_options: { include_usage: true },
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hello' },
    ],
  })
})

test('a model says what its calls are for, and whether they are training data', async () => {
  await using server = await startPolicyServer(['hi'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const model = new OsmosisRolloutModel({ purpose: 'title', trainable: false })
    return run(policyAgent({ model }), 'hello', { session: new OsmosisMemorySession() })
  })
  expect(server.requests[0]?.headers).toMatchObject({
    'x-osmosis-purpose': 'title',
    'x-osmosis-trainable': 'false',
  })
  expect((await rollout.getSamples()).size).toBe(0)
})

test('no OPENAI_ variable of the environment reaches the policy', async () => {
  vi.stubEnv('OPENAI_API_KEY', 'sk-secret')
  vi.stubEnv('OPENAI_ORG_ID', 'org-secret')
  vi.stubEnv('OPENAI_PROJECT_ID', 'proj-secret')
  vi.stubEnv('OPENAI_CUSTOM_HEADERS', 'x-custom: header-secret')
  vi.stubEnv('OPENAI_BASE_URL', 'http://127.0.0.1:9/secret')
  await using server = await startPolicyServer(['hi'])
  await rolloutOn(server).run(async () =>
    run(policyAgent(), 'hello', { session: new OsmosisMemorySession() }),
  )
  const [request] = server.requests
  expect(request?.headers['authorization']).toBe('Bearer key')
  expect(JSON.stringify([request?.headers, request?.rawBody])).not.toContain('secret')
})

test('model settings and provider data go into the body', async () => {
  await using server = await startPolicyServer(['hi'])
  const modelSettings = {
    temperature: 1,
    topP: 0.9,
    maxTokens: 4096,
    providerData: { logprobs: true, top_k: 20, min_p: 0.05 },
  }
  await rolloutOn(server).run(async () =>
    run(policyAgent({ modelSettings }), 'hello', { session: new OsmosisMemorySession() }),
  )
  expect(server.requests[0]?.body).toMatchObject({
    temperature: 1,
    top_p: 0.9,
    max_tokens: 4096,
    logprobs: true,
    top_k: 20,
    min_p: 0.05,
  })
})

test.each([
  ['extra_headers', 'extra_body'],
  ['extraHeaders', 'extraBody'],
])('%s become headers, %s becomes part of the body', async (headersKey, bodyKey) => {
  await using server = await startPolicyServer(['hi'])
  const providerData = {
    [headersKey]: { 'x-route': 'blue', 'x-attempt': 2, 'x-unset': undefined },
    [bodyKey]: { chat_template_kwargs: { enable_thinking: false } },
  }
  await rolloutOn(server).run(async () =>
    run(policyAgent({ modelSettings: { providerData } }), 'hello', {
      session: new OsmosisMemorySession(),
    }),
  )
  const [request] = server.requests
  expect(request?.headers).toMatchObject({ 'x-route': 'blue', 'x-attempt': '2' })
  expect(request?.headers).not.toHaveProperty('x-unset')
  expect(request?.body).toMatchObject({ chat_template_kwargs: { enable_thinking: false } })
  expect(Object.keys(request?.body ?? {})).not.toContain(headersKey)
  expect(Object.keys(request?.body ?? {})).not.toContain(bodyKey)
})

test('neither headers nor provider data can take a call away from its sample', async () => {
  await using server = await startPolicyServer(['hi'])
  const providerData = {
    model: 'gpt-5',
    stream: false,
    extra_headers: { 'X-Sample-Id': 'other', 'x-rollout-id': 'other', Authorization: 'Bearer x' },
    extra_body: { messages: [{ role: 'user', content: 'something else' }] },
  }
  await rolloutOn(server).run(async () =>
    run(policyAgent({ modelSettings: { providerData } }), 'hello', {
      session: new OsmosisMemorySession({ name: 'main' }),
    }),
  )
  const [request] = server.requests
  expect(request?.headers).toMatchObject({
    'x-sample-id': 'main',
    'x-rollout-id': 'rollout-1',
    authorization: 'Bearer key',
  })
  expect(request?.body).toMatchObject({
    model: 'osmosis-rollout',
    stream: true,
    messages: [{ role: 'user', content: 'hello' }],
  })
})

test('the usage that the policy reports is that of the run', async () => {
  const usage = (promptTokens: number, completionTokens: number) => ({
    usage: { promptTokens, completionTokens },
  })
  await using server = await startPolicyServer([
    { ...callAdd, ...usage(10, 5) },
    { content: 'done', ...usage(20, 2) },
  ])
  const result = await rolloutOn(server).run(async () =>
    run(policyAgent({ tools: [addTool()] }), 'hello', { session: new OsmosisMemorySession() }),
  )
  expect(result.state.usage).toMatchObject({
    requests: 2,
    inputTokens: 30,
    outputTokens: 7,
    totalTokens: 37,
  })
})

test('a streamed run hears the answer word by word', async () => {
  await using server = await startPolicyServer(['one two three'])
  const words = await rolloutOn(server).run(async () => {
    const session = new OsmosisMemorySession()
    const result = await run(policyAgent(), 'hello', { session, stream: true })
    const heard: string[] = []
    for await (const event of result) {
      if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') {
        heard.push(event.data.delta)
      }
    }
    await result.completed
    return heard
  })
  expect(words).toEqual(['one ', 'two ', 'three'])
})
