import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

import { RolloutContext } from '@osmosis/core'
import { describe, expect, it } from 'vitest'

import {
  answerStream,
  chunk,
  eventStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  usage,
} from '../../../../test/kit/index.ts'

const post = (body: object, init: RequestInit = {}): RequestInit => ({
  method: 'POST',
  body: JSON.stringify(body),
  ...init,
})
const messages = [{ role: 'user', content: 'hi' }]

function policyFetch(url: string): typeof fetch {
  const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: url, apiKey: 'key' })
  return context.policy('main').fetch
}

/** Twice, because what a finalizer holds goes with the second one. */
async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (let times = 0; times < 2; times += 1) {
    collect()
    await setImmediate()
  }
}

describe('the fetch of a policy client', () => {
  it.each([304, 418])('answers a policy that answers %i with a refusal', async (status) => {
    const policy = await startPolicyEndpoint((response) => response.writeHead(status).end())
    const response = await policyFetch(policy.url)(
      'https://api.example.com/v1/chat/completions',
      post({ messages }),
    )
    expect(response.status).toBe(status < 400 ? 502 : status)
    expect(await response.json()).toMatchObject({ error: { message: expect.any(String) } })
  })

  it('answers with one JSON object, and passes on no header of the SDK', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    const response = await policyFetch(policy.url)(
      'https://api.example.com/v1/chat/completions',
      post(
        { messages, model: 'gpt' },
        { headers: { authorization: 'Bearer sk-own', 'openai-organization': 'org' } },
      ),
    )
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({
      choices: [{ message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
      usage,
    })
    expect(policy.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer key',
      'x-sample-id': 'main',
    })
    expect(policy.requests[0]?.headers).not.toHaveProperty('openai-organization')
  })

  it('gives answers an id of their own when the policy gave none', async () => {
    const anonymous = answerStream('ok').replaceAll('"id":"chatcmpl-1",', '')
    const policy = await startPolicyEndpoint((response) => sendStream(response, anonymous))
    const ask = async (): Promise<string> => {
      const response = await policyFetch(policy.url)(
        `${policy.url}/chat/completions`,
        post({ messages }),
      )
      return ((await response.json()) as { id: string }).id
    }
    const ids = [await ask(), await ask()]
    expect(new Set(ids).size).toBe(2)
    expect(ids).toEqual([expect.stringMatching(/^chatcmpl-.{36}$/), expect.any(String)])
  })

  it.each([
    ['eos_token', 'stop'],
    ['tool_calls', 'stop'],
    ['END_TURN', 'stop'],
    ['stop_sequence', 'stop'],
    ['max_tokens', 'length'],
    ['content_filter', 'content_filter'],
  ])(
    'the end %s of a text is %s for the agent, which knows no other words',
    async (said, shown) => {
      const answer = answerStream('ok').replace(
        '"finish_reason":"stop"',
        `"finish_reason":"${said}"`,
      )
      const policy = await startPolicyEndpoint((response) => sendStream(response, answer))
      const context = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
      const { fetch } = context.registerPolicySample('main')
      for (const stream of [false, true]) {
        const response = await fetch(`${policy.url}/chat/completions`, post({ messages, stream }))
        expect(await response.text()).toContain(`"finish_reason":"${shown}"`)
      }
      const sample = (await context.getSamples()).get('main')
      expect(sample?.calls.map(({ finishReason }) => finishReason)).toEqual([said, said])
    },
  )

  it('streams when a stream was requested', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    const response = await policyFetch(policy.url)(
      `${policy.url}/chat/completions`,
      post({ messages, stream: true }),
    )
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    expect(await response.text()).toBe(answerStream('ok'))
  })

  it('tells a refusal as the status it was, and that asking again is useless', async () => {
    const policy = await startPolicyEndpoint((response) =>
      sendJson(response, 401, { detail: 'no' }),
    )
    for (const stream of [true, false]) {
      const response = await policyFetch(policy.url)(
        `${policy.url}/chat/completions`,
        post({ messages, stream }),
      )
      expect(response.status).toBe(401)
      expect(response.headers.get('x-should-retry')).toBe('false')
      expect(await response.json()).toMatchObject({ error: { code: 'policy_http_error' } })
    }
  })

  it('breaks the body off when the stream breaks off', async () => {
    const policy = await startPolicyEndpoint((response) =>
      sendStream(response, eventStream(chunk({ content: 'half' })).replace('data: [DONE]\n\n', '')),
    )
    const response = await policyFetch(policy.url)(
      `${policy.url}/chat/completions`,
      post({ messages, stream: true }),
    )
    await expect(response.text()).rejects.toMatchObject({ code: 'policy_stream_error' })
  })

  it('breaks the body off when nothing of the answer came, with no cause that invites to ask again', async () => {
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      setTimeout(() => response.socket?.destroy(), 20)
    })
    for (const stream of [true, false]) {
      const response = await policyFetch(policy.url)(
        `${policy.url}/chat/completions`,
        post({ messages, stream }),
      )
      expect(response.status).toBe(200)
      const error: unknown = await response.text().catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'policy_stream_error' })
      expect(error).not.toHaveProperty('cause')
    }
    // Three times each, because nothing had been answered.
    expect(policy.requests).toHaveLength(6)
  })

  it.each([
    ['one JSON object', false],
    ['a stream', true],
  ])('is aborted also after a collection of garbage: %s', async (_, stream) => {
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(eventStream(chunk({ content: 'a' })).replace('data: [DONE]\n\n', ''))
    })
    const abort = new AbortController()
    const url = `${policy.url}/chat/completions`
    const init = post({ messages, stream })
    for (const ask of [
      async () => policyFetch(policy.url)(url, { ...init, signal: abort.signal }),
      async () => policyFetch(policy.url)(new Request(url, { ...init, signal: abort.signal })),
    ]) {
      const text = (await ask()).text()
      text.catch(() => {})
      await collectGarbage()
      abort.signal.throwIfAborted()
    }
    abort.abort(new Error('enough'))
    const closed = policy.requests.map(async (request) => request.closed)
    expect(await Promise.all(closed)).toEqual([true, true])
  })

  it('closes the socket when the body is cancelled or the request aborted', async () => {
    const open = eventStream(chunk({ content: 'a' })).replace('data: [DONE]\n\n', '')
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(open)
    })
    const response = await policyFetch(policy.url)(
      `${policy.url}/chat/completions`,
      post({ messages, stream: true }),
    )
    await response.body?.cancel()
    expect(await policy.requests[0]?.closed).toBe(true)

    const abort = new AbortController()
    const aborted = await policyFetch(policy.url)(
      `${policy.url}/chat/completions`,
      post({ messages, stream: true }, { signal: abort.signal }),
    )
    abort.abort(new Error('enough'))
    await expect(aborted.text()).rejects.toThrow('enough')
    expect(await policy.requests[1]?.closed).toBe(true)
  })

  it('answers SDKs that append the path to a base URL with a query', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    const chatCompletionsUrl = `${policy.url}?api-version=1&key=a/`
    const { baseUrl, fetch } = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl }).policy(
      'a',
    )
    const response = await fetch(`${baseUrl}/chat/completions`, post({ messages }))
    expect(response.status).toBe(200)
    expect(policy.requests[0]?.path).toBe('/v1/chat/completions?api-version=1&key=a/')
  })

  it('refuses every other request, without its query, which may hold a key', async () => {
    const fetch = policyFetch('http://127.0.0.1:1/v1')
    await expect(fetch('http://x/v1/models?api-key=secret')).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'The policy answers POST …/chat/completions only, got GET http://x/v1/models.',
    })
  })
})
