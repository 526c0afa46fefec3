import { request } from 'node:http'

import { requireRolloutContext } from '@osmosis/core'
import { recordOf } from '@osmosis/core/workflow'
import { createPolicyProxy } from '@osmosis/proxy'
import { describe, expect, it } from 'vitest'

import {
  answerStream,
  chunk,
  execute,
  sendJson,
  sendStream,
  startPolicyEndpoint,
} from '../../../test/kit/index.ts'
import { answering, post, proxied } from './proxied.ts'

const messages = [{ role: 'user', content: 'hi' }]

it('asks the policy under the sample, whatever the caller says it is', async () => {
  const { policy, rollout, proxy } = await proxied((response) =>
    sendStream(response, answerStream('ok')),
  )
  const headers = { authorization: 'Bearer sk-own', 'x-sample-id': 'other' }
  const whole = await fetch(`${proxy.url}/chat/completions`, post({ messages }, headers))
  expect(await whole.json()).toMatchObject({ choices: [{ message: { content: 'ok' } }] })
  const streamed = await fetch(`${proxy.url}/chat/completions`, post({ messages, stream: true }))
  expect(streamed.headers.get('content-type')).toBe('text/event-stream')
  expect(await streamed.text()).toMatch(/"content":"ok"[^]*data: \[DONE\]\n\n$/)
  expect(policy.requests[0]?.headers).toMatchObject({
    authorization: 'Bearer key',
    'x-rollout-id': 'r',
    'x-sample-id': 'main',
  })
  const sample = (await rollout.getSamples()).get('main')
  expect(sample?.calls).toHaveLength(2)
})

it('announces no time after which it closes the connection of an agent that works', async () => {
  const { proxy } = await proxied((response) => sendStream(response, answerStream('ok')))
  const answer = await fetch(`${proxy.url}/chat/completions`, post({ messages }))
  await answer.text()
  expect(answer.headers.get('keep-alive')).toBe(null)
})

it('passes on what the policy refuses, and refuses what it does not know', async () => {
  const { policy, proxy } = await proxied((response) =>
    sendJson(response, 400, { error: { message: 'too long' } }),
  )
  const refused = await fetch(`${proxy.url}/chat/completions`, post({ messages }))
  expect([refused.status, refused.headers.get('x-should-retry')]).toEqual([400, 'false'])
  expect(await refused.json()).toMatchObject({
    error: { message: expect.stringContaining('too long') },
  })
  const other = await fetch(`${proxy.url}/models`)
  expect([other.status, await other.json()]).toEqual([
    404,
    {
      error: {
        message: expect.stringContaining('got GET /v1/models'),
        type: 'invalid_request_error',
        param: null,
        code: null,
      },
    },
  ])
  const { origin } = new URL(proxy.url)
  const stranger = await fetch(`${origin}/v1/chat/completions`, post({ messages }))
  expect(stranger.status).toBe(404)
  expect(policy.requests).toHaveLength(1)
})

describe('a base URL on a command line', () => {
  it.each(['openai', 'anthropic'] as const)('has no secret: variables of %s', async (api) => {
    const { proxy } = await answering(['from the key'])
    const env = proxy.env(api)
    const base = env['OPENAI_BASE_URL'] ?? `${env['ANTHROPIC_BASE_URL']}/v1`
    expect(base).toBe(`${proxy.origin}/v1`)
    const key = env['OPENAI_API_KEY'] ?? env['ANTHROPIC_API_KEY']
    const bearer = { authorization: `Bearer ${key}` }
    const answer = await fetch(`${base}/chat/completions`, post({ messages }, bearer))
    expect(await answer.text()).toContain('from the key')
    expect(proxy.url).toContain(key)
  })

  it.each<[string, (secret: string) => Record<string, string>]>([
    ['none', () => ({})],
    ['an empty one', () => ({ authorization: 'Bearer ', 'x-api-key': '' })],
    ['a guess', () => ({ authorization: 'Bearer unused' })],
    ['a beginning', (secret) => ({ 'x-api-key': secret.slice(0, -1) })],
    ['more', (secret) => ({ authorization: `Bearer ${secret}x` })],
    ['another scheme', (secret) => ({ authorization: `Basic ${secret}` })],
    ['no scheme', (secret) => ({ authorization: secret })],
    ['a cookie', (secret) => ({ cookie: `key=${secret}` })],
    ['another header', (secret) => ({ 'x-secret': secret })],
    ['two keys', (secret) => ({ 'x-api-key': `${secret}, ${secret}` })],
  ])('calls no policy with this as its key: %s', async (_name, headers) => {
    const { proxy, policy } = await answering(['never'])
    for (const path of [
      '/v1/chat/completions',
      '/v1/messages',
      '/v1/responses',
      `/${proxy.apiKey}`,
    ]) {
      const answer = await fetch(proxy.origin + path, post({ messages }, headers(proxy.apiKey)))
      expect(answer.status).toBe(404)
    }
    expect(policy.requests).toEqual([])
  })

  it.each(['authorization', 'x-api-key'])(
    'calls the policy with the key in %s, in each dialect',
    async (header) => {
      const { proxy, policy } = await answering(['a', 'b', 'c'])
      const key = { [header]: header === 'authorization' ? `bearer ${proxy.apiKey}` : proxy.apiKey }
      const bodies = {
        'chat/completions': { messages },
        messages: { max_tokens: 5, messages },
        responses: { input: messages },
      }
      for (const [path, body] of Object.entries(bodies)) {
        expect((await fetch(`${proxy.origin}/v1/${path}`, post(body, key))).status).toBe(200)
      }
      expect(policy.requests).toHaveLength(3)
      expect(JSON.stringify(policy.requests)).not.toContain(proxy.apiKey)
    },
  )
})

it('breaks off where the policy breaks off', async () => {
  const { proxy } = await proxied((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${JSON.stringify(chunk({ role: 'assistant', content: 'hel' }))}\n\n`)
    setImmediate(() => response.destroy())
  })
  const answer = await fetch(`${proxy.url}/chat/completions`, post({ messages, stream: true }))
  await expect(answer.text()).rejects.toThrow('terminated')
})

it('ends the call of a caller that went away', async () => {
  const asked = Promise.withResolvers<void>()
  const { policy, proxy } = await proxied(() => asked.resolve())
  const call = request(`${proxy.url}/chat/completions`, { method: 'POST' })
  call.on('error', () => {})
  call.end(JSON.stringify({ messages }))
  await asked.promise
  call.destroy()
  expect(await policy.requests[0]?.closed).toBe(true)
})

it('is closed with its rollout', async () => {
  const { proxy, over } = await proxied(() => {})
  over.abort()
  await expect(fetch(`${proxy.url}/chat/completions`, post({ messages }))).rejects.toThrow(
    'fetch failed',
  )
})

it('fails the rollout of an agent that made nothing of an error', async () => {
  const policy = await startPolicyEndpoint((response) => sendJson(response, 401, {}))
  const { workflow } = await execute(policy, async () => {
    const sample = requireRolloutContext('The test').registerPolicySample('main')
    const proxy = await createPolicyProxy(sample)
    await fetch(`${proxy.url}/chat/completions`, post({ messages }))
  })
  expect(workflow).toMatchObject({ status: 'failure', failure: { category: 'http_error' } })
})

describe('a program that ends because the policy failed', () => {
  const refusing = (status: number) =>
    startPolicyEndpoint((response) =>
      sendJson(response, status, { error: { message: 'access has expired' } }),
    )
  const paths = ['/v1/messages', '/v1/responses', '/v1/chat/completions']
  const body = { messages, input: messages, max_tokens: 9 }

  it.each(
    paths.flatMap((path) =>
      [true, false].flatMap((stream) => [
        { path, stream, thrown: () => new Error('the program exited with code 1') },
        { path, stream, thrown: () => new TypeError('no content in undefined') },
      ]),
    ),
  )(
    'failed with it, and its own words come second: $path, stream $stream',
    async ({ path, stream, thrown }) => {
      const policy = await refusing(401)
      const { workflow } = await execute(policy, async () => {
        const sample = requireRolloutContext('The test').registerPolicySample('main')
        const proxy = await createPolicyProxy(sample)
        await (await fetch(proxy.anthropicUrl + path, post({ ...body, stream }))).text()
        throw thrown()
      })
      const { category, message } = workflow.failure ?? {}
      expect(category).toBe('http_error')
      expect(message).toMatch(/^The policy endpoint answered 401: access has expired\./)
      expect(message).toMatch(/Then thrown by run\(\) at .*: (?:the program exited|no content)/)
    },
  )

  it('says so of an answer that breaks off, too', async () => {
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify(chunk({ content: 'hel' }))}\n\n`)
      setTimeout(() => response.destroy(), 20)
    })
    const { workflow } = await execute(policy, async () => {
      const sample = requireRolloutContext('The test').registerPolicySample('main')
      const proxy = await createPolicyProxy(sample)
      const url = `${proxy.anthropicUrl}/v1/messages`
      await (await fetch(url, post({ ...body, stream: true }))).text()
      throw new Error('the program exited with code 1')
    })
    expect(workflow).toMatchObject({
      status: 'failure',
      failure: { category: 'http_error', cause: { code: 'policy_stream_error' } },
    })
  })

  it.each([
    ['the call was answered after it had failed', [401, 200], new Error('exit 1')],
    [
      'what it throws names another failure',
      [401],
      Object.assign(new Error('no'), { status: 500 }),
    ],
    ['the policy never failed', [200], new Error('exit 1')],
  ] as const)('failed by itself when %s', async (_, statuses, thrown) => {
    const policy = await startPolicyEndpoint((response, n) => {
      if (statuses[n - 1] === 401) return sendJson(response, 401, {})
      return sendStream(response, answerStream('ok'))
    })
    const { workflow } = await execute(policy, async () => {
      const sample = requireRolloutContext('The test').registerPolicySample('main')
      const proxy = await createPolicyProxy(sample)
      for (const status of statuses) {
        const answered = await fetch(`${proxy.url}/messages`, post(body))
        expect(answered.status).toBe(status)
        await answered.text()
      }
      throw thrown
    })
    expect(workflow.failure?.message).toMatch(/^thrown by run\(\) at .*: (?:exit 1|no)$/)
  })

  it('failed by itself when it ended in the middle of a call', async () => {
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify(chunk({ content: 'hel' }))}\n\n`)
    })
    const { workflow } = await execute(policy, async () => {
      const sample = requireRolloutContext('The test').registerPolicySample('main')
      const proxy = await createPolicyProxy(sample)
      const gone = new AbortController()
      const init = { ...post({ ...body, stream: true }), signal: gone.signal }
      await fetch(`${proxy.anthropicUrl}/v1/messages`, init)
      gone.abort()
      throw new Error('a bug of the program')
    })
    expect(workflow.failure).toMatchObject({
      category: 'agent_error',
      message: expect.stringMatching(/^thrown by run\(\) at \S+ a bug of the program$/),
    })
  })
})

it('passes on what a call is for, and refuses what cannot be understood', async () => {
  const { policy, rollout, proxy } = await proxied((response) =>
    sendStream(response, answerStream('ok')),
  )
  const url = `${proxy.url}/chat/completions`
  const title = { 'x-osmosis-purpose': 'title', 'X-Osmosis-Trainable': 'False' }
  await (await fetch(url, post({ messages, temperature: 0.5 }, title))).text()
  await (await fetch(url, post({ messages }))).text()
  const headers = policy.requests.map(({ headers: sent }) => [
    sent['x-osmosis-purpose'],
    sent['x-osmosis-trainable'],
  ])
  expect(headers).toEqual([
    ['title', 'false'],
    [undefined, undefined],
  ])
  const sample = (await rollout.getSamples()).get('main')
  expect(sample?.calls).toMatchObject([
    { purpose: 'title', trainable: false, sampling: { temperature: 0.5 } },
    { purpose: 'agent', trainable: true, sampling: {} },
  ])
  for (const wrong of [{ 'x-osmosis-trainable': 'no' }, { 'x-osmosis-purpose': 'a title' }]) {
    const refused = await fetch(url, post({ messages }, wrong))
    expect(refused.status).toBe(400)
    expect(await refused.text()).toMatch(/must be true or false|must be 1 to 64 letters/)
  }
  expect(policy.requests).toHaveLength(2)
})

it('gives no sample of an agent whose calls are not training data', async () => {
  const { rollout, proxy } = await proxied((response) => sendStream(response, answerStream('ok')))
  const untrained = { 'x-osmosis-trainable': 'false' }
  await (await fetch(`${proxy.url}/chat/completions`, post({ messages }, untrained))).text()
  const samples = await rollout.getSamples()
  expect(samples.size).toBe(0)
  expect(recordOf(rollout).callsOutside(samples)).toMatchObject([{ trainable: false, error: null }])
})
