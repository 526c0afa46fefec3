import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

import { upstreamPolicy } from '@osmosis/controller'
import { describe, expect, it, onTestFinished } from 'vitest'

import { callPolicy } from './fake-rollout-server.ts'
import { startUpstream, writeOddly } from './fake-upstream.ts'
import { startRollout } from './running-rollout.ts'

describe('upstreamPolicy', () => {
  it.each([
    [200, 502, 'no_chat_completion'],
    [503, 503, 'policy_refused'],
  ])(
    'says of a page with %i what it is, where it comes from and what can be read',
    async (status, passedOn, code) => {
      await using upstream = await startUpstream((outgoing) => {
        outgoing.writeHead(status, { 'content-type': 'text/html', 'retry-after-ms': '1' })
        outgoing.end('<html><body><h1>It works!</h1>sk-secret</body></html>')
      })
      await using policy = upstreamPolicy({
        baseUrl: `${upstream.url}/v1?key=k`,
        apiKey: 'sk-secret',
        model: 'm',
      })
      const { signal } = new AbortController()
      const request = { rolloutId: 'r', sampleId: '', body: {}, headers: {}, signal }
      const answer = await policy.respond(request)
      expect([answer.status, answer.headers.get('retry-after-ms')]).toEqual([passedOn, '1'])
      expect(await answer.json()).toMatchObject({
        error: {
          code,
          message: `The policy answered ${status} with text/html, which is not a chat completion: It works! [redacted] (${upstream.url}/v1)`,
        },
      })
    },
  )

  it.each([200, 401])(
    'shows the headers of an answer with %i to who wants them',
    async (status) => {
      await using upstream = await startUpstream((outgoing) => {
        outgoing
          .writeHead(status, { 'x-litellm-version': '1', 'set-cookie': ['a=1', 'b=2'] })
          .end('{}')
      })
      const seen: Headers[] = []
      await using policy = upstreamPolicy({
        baseUrl: `${upstream.url}/v1`,
        model: 'm',
        onHeaders: (headers) => seen.push(headers),
      })
      const { signal } = new AbortController()
      const request = { rolloutId: 'r', sampleId: '', body: {}, headers: {}, signal }
      const answer = await policy.respond(request)
      expect(seen.map((one) => one.get('x-litellm-version'))).toEqual(['1'])
      expect(seen[0]?.getSetCookie()).toEqual(['a=1', 'b=2'])
      // Callers do not get them.
      expect(answer.headers.get('x-litellm-version')).toBeNull()
      await answer.text()
    },
  )

  it('replaces the model and passes everything else through', async () => {
    await using upstream = await startUpstream((outgoing) => void outgoing.end('{}'))
    const policy = upstreamPolicy({ baseUrl: `${upstream.url}/v1/`, apiKey: 'key', model: 'qwen' })
    await using rollout = await startRollout(policy)
    const body = {
      model: 'osmosis-rollout',
      messages: [{ role: 'user', content: 'é\u2028' }],
      tools: [],
      tool_choice: 'required',
      response_format: { type: 'json_object' },
      seed: 7,
      stop: ['\n'],
      stream: true,
      stream_options: { include_usage: true },
      max_completion_tokens: 9,
      parallel_tool_calls: false,
      logprobs: true,
      unheard_of: { deep: [null] },
    }
    await callPolicy(rollout.order, body, { headers: { 'x-sample-id': 'main' } })
    const [request] = upstream.requests
    expect(request?.path).toBe('/v1/chat/completions')
    expect(request?.body).toStrictEqual({ ...body, model: 'qwen' })
    expect(request?.headers).toMatchObject({
      authorization: 'Bearer key',
      'content-type': 'application/json',
      'accept-encoding': 'identity',
    })
  })

  it.each([
    [
      'numbers that JavaScript writes otherwise, and spaces',
      '{"messages": [],  "model" : "osmosis-rollout", "temperature":1.0,"seed":12345678901234567890}',
      '{"messages": [],  "model" :"qwen", "temperature":1.0,"seed":12345678901234567890}',
    ],
    [
      'what only looks like the model',
      '{"tools":[{"model":"a"}],"user":"\\"model\\":","model":"m","x":{"model":{"y":1}}}',
      '{"tools":[{"model":"a"}],"user":"\\"model\\":","model":"qwen","x":{"model":{"y":1}}}',
    ],
    [
      'a model written with escapes, at the end',
      '{"n":1e3,"mod\\u0065l":["a",{"b":1}]}',
      '{"n":1e3,"mod\\u0065l":"qwen"}',
    ],
    ['a request without a model', '{"messages":[]}', '{"messages":[],"model":"qwen"}'],
  ])('leaves the text of a request as it is: %s', async (_what, sent, expected) => {
    const { promise: received, resolve } = Promise.withResolvers<string>()
    const server = createServer((incoming, outgoing) => {
      void text(incoming).then((sentOn) => resolve(sentOn))
      outgoing.end('{}')
    })
    onTestFinished(() => void server.close())
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    const { port } = server.address() as AddressInfo
    await using policy = upstreamPolicy({ baseUrl: `http://127.0.0.1:${port}`, model: 'qwen' })
    await using rollout = await startRollout(policy)
    await callPolicy(rollout.order, sent)
    expect(await received).toBe(expected)
  })

  it.each([
    ['/v1/chat/completions', '/v1/chat/completions'],
    ['/v1?api-version=1', '/v1/chat/completions?api-version=1'],
    ['', '/chat/completions'],
  ])('completes the base URL ending in %j', async (ending, path) => {
    await using upstream = await startUpstream((outgoing) => void outgoing.end('{}'))
    const policy = upstreamPolicy({ baseUrl: upstream.url + ending, model: 'm' })
    await using rollout = await startRollout(policy)
    await callPolicy(rollout.order)
    const { path: asked, headers } = upstream.requests[0] ?? {}
    expect([asked, headers?.authorization]).toStrictEqual([path, undefined])
  })

  it('passes the bytes of a stream on as they are, however they are cut', async () => {
    const bytes = Buffer.concat([
      Buffer.from(': ping\r\n\r\ndata: {"choices":[{"delta":{"content":"ﬁé😀"}}]}\n\n'),
      Buffer.from([0xff, 0xfe, 0x00, 0x80]),
      Buffer.from('event: error\ndata: {"error":"x"}\n\ndata: {"usage":{"total_tokens":5}}\n'),
      Buffer.from('data: [DONE]'),
    ])
    await using upstream = await startUpstream(async (outgoing) => {
      outgoing.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
      await writeOddly(outgoing, bytes)
    })
    await using rollout = await startRollout(upstreamPolicy({ baseUrl: upstream.url, model: 'm' }))
    const answer = await callPolicy(rollout.order)
    expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true)
    expect((await rollout.end()).usage.totalTokens).toBe(5)
  })

  it.each([
    [200, { 'content-type': 'application/json' }, '{"a":  1.0, "usage":{"total_tokens":4}} '],
    [429, { 'content-type': 'application/json', 'retry-after': '12' }, '{"error":{}}'],
    [500, { 'content-type': 'text/plain' }, 'it broke'],
    [401, {}, ''],
  ])('passes an answer with status %i through', async (status, headers, body) => {
    await using upstream = await startUpstream(
      (outgoing) => void outgoing.writeHead(status, headers).end(body),
    )
    await using rollout = await startRollout(upstreamPolicy({ baseUrl: upstream.url, model: 'm' }))
    const answer = await callPolicy(rollout.order)
    const passed = ['content-type', 'retry-after'].flatMap((name) => {
      const value = answer.headers.get(name)
      return value === null ? [] : [[name, value]]
    })
    expect([answer.status, Object.fromEntries(passed), await answer.text()]).toStrictEqual([
      status,
      headers,
      body,
    ])
  })

  it('breaks the answer off when the endpoint does', async () => {
    await using upstream = await startUpstream((outgoing) => {
      outgoing.writeHead(200, { 'content-type': 'text/event-stream' })
      outgoing.write('data: {}\n\n', () => outgoing.destroy())
    })
    await using rollout = await startRollout(upstreamPolicy({ baseUrl: upstream.url, model: 'm' }))
    const answer = await callPolicy(rollout.order)
    await expect(answer.text()).rejects.toThrow('terminated')
  })

  it.each<[string, (outgoing: ServerResponse) => void]>([
    ['before the headers', () => {}],
    ['in the middle', (outgoing) => void outgoing.write('data: {}\n\n')],
  ])('closes its connection when the caller leaves %s', async (_when, start) => {
    const arrived = Promise.withResolvers<void>()
    await using upstream = await startUpstream((outgoing) => {
      start(outgoing)
      arrived.resolve()
    })
    await using rollout = await startRollout(upstreamPolicy({ baseUrl: upstream.url, model: 'm' }))
    const leave = new AbortController()
    const answer = callPolicy(rollout.order, {}, { signal: leave.signal }).then((a) => a.text())
    await arrived.promise
    leave.abort()
    await expect(answer).rejects.toThrow('aborted')
    await upstream.requests[0]?.abandoned
  })

  it('tells a connection that was closed from an endpoint that is not there', async () => {
    const closing = createServer((request) => request.socket.destroy()).listen(0, '127.0.0.1')
    await new Promise((resolve) => closing.once('listening', resolve))
    const { port } = closing.address() as AddressInfo
    const policy = upstreamPolicy({ baseUrl: `http://127.0.0.1:${port}/v1`, model: 'm' })
    await using rollout = await startRollout(policy)
    const answer = await callPolicy(rollout.order)
    expect([answer.status, await answer.json()]).toMatchObject([
      502,
      {
        error: {
          message: `The policy at http://127.0.0.1:${port}/v1 closed the connection: other side closed`,
          code: 'policy_connection_lost',
        },
      },
    ])
    await new Promise((resolve) => closing.close(resolve))
  })

  it('answers 502 with the address but no key when no server listens', async () => {
    const vanished = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => vanished.once('listening', resolve))
    const { port } = vanished.address() as AddressInfo
    await new Promise((resolve) => vanished.close(resolve))
    const policy = upstreamPolicy({
      baseUrl: `http://127.0.0.1:${port}/v1?key=planted`,
      apiKey: 'planted',
      model: 'm',
    })
    await using rollout = await startRollout(policy)
    const answer = await callPolicy(rollout.order)
    expect([answer.status, await answer.json()]).toStrictEqual([
      502,
      {
        error: {
          message: `The policy at http://127.0.0.1:${port}/v1 cannot be reached: connect ECONNREFUSED 127.0.0.1:${port}`,
          type: 'server_error',
          code: 'policy_unreachable',
        },
      },
    ])
  })

  it('is over when it is closed: what continues breaks off, and more is answered with 502', async () => {
    const arrived = Promise.withResolvers<void>()
    await using upstream = await startUpstream(() => arrived.resolve())
    const policy = upstreamPolicy({ baseUrl: upstream.url, model: 'm' })
    const { signal } = new AbortController()
    const call = { rolloutId: 'r', sampleId: '', body: {}, headers: {}, signal }
    const open = policy.respond(call)
    await arrived.promise
    await policy.close()
    await policy.close()
    expect([(await open).status, (await policy.respond(call)).status]).toStrictEqual([502, 502])
  })
})
