import { inspect } from 'node:util'

import { RolloutContext, type RolloutContextInit } from '@osmosis/core'
import type { ChatCompletionChunk } from '@osmosis/core/policy'
import { describe, expect, it, vi } from 'vitest'

import {
  answerStream,
  chunk,
  eventStream,
  sendJson,
  sendStream,
  startPolicyEndpoint,
  usage,
} from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'hi' }]

function context(url: string, init: Partial<RolloutContextInit> = {}): RolloutContext {
  return new RolloutContext({
    rolloutId: 'r-1',
    chatCompletionsUrl: url,
    apiKey: 'secret-key',
    ...init,
  })
}

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.fail('should have been refused'),
    (error: unknown) => error,
  )
}

describe('a request to the policy', () => {
  it('carries the ids and the bearer of the rollout, and whatever else the caller adds', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    await context(policy.url)
      .policy('main')
      .complete({ messages }, { headers: { traceparent: '00-1' } })

    expect(policy.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer secret-key',
      'x-rollout-id': 'r-1',
      'x-sample-id': 'main',
      traceparent: '00-1',
      'content-type': 'application/json',
    })
    expect(policy.requests[0]?.path).toBe('/v1/chat/completions')
  })

  it('keeps its identity whatever headers the caller passes', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    const headers = {
      'X-Sample-Id': 'other',
      'x-rollout-id': 'other',
      Authorization: 'Bearer other',
      'Content-Type': 'text/plain',
    }
    await context(policy.url).policy('main').complete({ messages }, { headers })
    await context(policy.url, { apiKey: undefined })
      .policy('main')
      .complete({ messages }, { headers })

    expect(policy.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer secret-key',
      'x-rollout-id': 'r-1',
      'x-sample-id': 'main',
      'content-type': 'application/json',
    })
    expect(policy.requests[1]?.headers).not.toHaveProperty('authorization')
  })

  it('is unaffected by what SDKs read from the environment', async () => {
    vi.stubEnv('OPENAI_ORG_ID', 'org-leak')
    vi.stubEnv('OPENAI_API_KEY', 'key-leak')
    vi.stubEnv('OSMOSIS_API_KEY', 'key-leak')
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    await context(policy.url, { apiKey: undefined }).policy('main').complete({ messages })
    vi.unstubAllEnvs()

    expect(JSON.stringify(policy.requests)).not.toContain('leak')
    expect(policy.requests[0]?.headers).not.toHaveProperty('authorization')
  })

  it('asks for the policy as a stream with usage, and leaves every other setting as it is', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    await context(policy.url)
      .policy('main')
      .complete({
        messages,
        model: 'gpt-5.2',
        stream: false,
        stream_options: { continuous_usage_stats: true },
        temperature: 0.5,
        top_k: 20,
      })

    expect(policy.requests[0]?.body).toEqual({
      messages,
      model: 'osmosis-rollout',
      stream: true,
      stream_options: { continuous_usage_stats: true, include_usage: true },
      temperature: 0.5,
      top_k: 20,
    })
  })

  it.each([
    ['/v1', '/v1/chat/completions'],
    ['/v1/', '/v1/chat/completions'],
    ['/v1/rollouts/r%201', '/v1/rollouts/r%201/chat/completions'],
    ['/v1/chat/completions', '/v1/chat/completions'],
    ['/v1/chat/completions/', '/v1/chat/completions'],
    ['/v1?key=a%20b', '/v1/chat/completions?key=a%20b'],
  ])('goes from the base URL %s to %s', async (base, expected) => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    const url = policy.url.replace('/v1', base)
    await context(url).policy('main').complete({ messages })
    expect(policy.requests[0]?.path).toBe(expected)
  })

  it('is refused when it asks for several answers at once, because only one could be recorded', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('ok')))
    const error = await failure(context(policy.url).policy('main').complete({ messages, n: 2 }))
    expect(error).toMatchObject({ code: 'invalid_request' })
    expect(policy.requests).toEqual([])
  })
})

describe('an answer of the policy', () => {
  const text = (content: string): object => ({ role: 'assistant', content })

  it.each<[string, string, object]>([
    ['token by token', answerStream('hello'), text('hello')],
    [
      'with comments between the events',
      `: ping\n\n${answerStream('hello').replaceAll('data:', ': keep-alive\ndata:')}`,
      text('hello'),
    ],
    ['with CRLF line ends', answerStream('hello').replaceAll('\n', '\r\n'), text('hello')],
    [
      'in one fat chunk without a role',
      eventStream(chunk({ content: 'hello' }, 'stop')),
      text('hello'),
    ],
    [
      'without a space behind data:',
      answerStream('hello').replaceAll('data: ', 'data:'),
      text('hello'),
    ],
    ['without the empty line at the end', answerStream('hello').trimEnd(), text('hello')],
    [
      'without [DONE] but with a finish reason',
      answerStream('hello').replace('data: [DONE]\n\n', ''),
      text('hello'),
    ],
    [
      'without a finish reason but with [DONE]',
      eventStream(chunk({ content: 'hello' })),
      text('hello'),
    ],
    [
      'with thinking',
      eventStream(
        chunk({ reasoning_content: 'hm' }),
        chunk({ reasoning_content: 'm', content: 'x' }, 'stop'),
      ),
      { role: 'assistant', content: 'x', reasoning_content: 'hmm' },
    ],
    [
      'with interleaved deltas of parallel tool calls beside text',
      eventStream(
        chunk({ content: 'both' }),
        chunk({
          tool_calls: [
            { index: 0, id: 'c1', function: { name: 'f', arguments: '{' } },
            { index: 1, id: 'c2', function: { name: 'g', arguments: '{' } },
          ],
        }),
        chunk({ tool_calls: [{ index: 1, function: { arguments: '}' } }] }),
        chunk({ tool_calls: [{ index: 0, function: { arguments: '}' } }] }, 'tool_calls'),
      ),
      {
        role: 'assistant',
        content: 'both',
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } },
          { id: 'c2', type: 'function', function: { name: 'g', arguments: '{}' } },
        ],
      },
    ],
    ['that is empty', eventStream(chunk({}, 'length')), text('')],
  ])('is understood %s', async (_how, body, expected) => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, body))
    const completion = await context(policy.url).policy('main').complete({ messages })
    expect(completion.choices[0]?.message).toEqual(expected)
  })

  it('is the same however its bytes are split', async () => {
    const body = Buffer.from(answerStream('größe 🙂 "quoted"'))
    for (const size of [1, 2, 3, 7]) {
      const policy = await startPolicyEndpoint((response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        for (let at = 0; at < body.length; at += size) response.write(body.subarray(at, at + size))
        response.end()
      })
      const completion = await context(policy.url).policy('main').complete({ messages })
      expect(completion.choices[0]?.message.content).toBe('größe 🙂 "quoted"')
    }
  })

  it('may be one JSON object although a stream was requested', async () => {
    const policy = await startPolicyEndpoint((response) =>
      sendJson(response, 200, {
        id: 'c',
        choices: [
          {
            index: 0,
            message: {
              role: 'assistant',
              content: 'whole',
              tool_calls: [
                { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } },
              ],
            },
            finish_reason: 'tool_calls',
          },
        ],
        usage,
      }),
    )
    const completion = await context(policy.url).policy('main').complete({ messages })
    expect(completion).toEqual({
      id: 'c',
      object: 'chat.completion',
      created: 0,
      model: '',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'whole',
            tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }],
          },
          finish_reason: 'tool_calls',
          logprobs: null,
        },
      ],
      usage,
    })
  })

  it('keeps usage, token ids and logprobs', async () => {
    const token = (id: number): object => ({
      choices: [
        {
          index: 0,
          delta: { content: 'x' },
          token_ids: [id],
          logprobs: { content: [{ token: 'x', logprob: -0.1 * id }] },
        },
      ],
    })
    const policy = await startPolicyEndpoint((response) =>
      sendStream(
        response,
        eventStream({ ...chunk({}), prompt_token_ids: [7, 8] }, token(1), token(2), {
          ...chunk({}, 'stop'),
          usage,
        }),
      ),
    )
    const completion = await context(policy.url).policy('main').complete({ messages })
    expect(completion).toMatchObject({
      usage,
      prompt_token_ids: [7, 8],
      choices: [
        { token_ids: [1, 2], logprobs: { content: [{ logprob: -0.1 }, { logprob: -0.2 }] } },
      ],
    })
  })

  it.each<[string, string, RegExp]>([
    ['an event named error', 'event: error\ndata: {"error":"out of memory"}\n\n', /out of memory/],
    [
      'an error object',
      `data: {"error":{"message":"out of memory"}}\n\ndata: [DONE]\n\n`,
      /out of memory/,
    ],
    ['text that is not JSON', 'data: <html>\n\n', /not a JSON object: <html>/],
    [
      'tool calls that are none',
      eventStream(chunk({ tool_calls: 'none' })),
      /cannot be read: .*"tool_calls":"none"/,
    ],
    [
      'a content that is not text',
      eventStream(chunk({ content: [{ type: 'text', text: 'hi' }] as never })),
      /cannot be read: .*"content":\[/,
    ],
    ['no list of choices', eventStream({ choices: {} }), /cannot be read: {"choices":{}}/],
    [
      'a choice that is none',
      eventStream({ choices: [null] }),
      /cannot be read: {"choices":\[null\]}/,
    ],
    ['a number for a choice', eventStream({ choices: [5] }), /cannot be read: {"choices":\[5\]}/],
    ['a text for a delta', eventStream({ choices: [{ delta: 'hi' }] }), /"delta":"hi"/],
    ['a number for its text', eventStream(chunk({ content: 5 }, 'stop')), /"content":5/],
    ['a list for its refusal', eventStream(chunk({ refusal: [] }, 'stop')), /"refusal":\[\]/],
    ['an object for its thinking', eventStream(chunk({ reasoning: {} }, 'stop')), /"reasoning":{}/],
    [
      'a number for its thinking',
      eventStream(chunk({ reasoning_content: 1 }, 'stop')),
      /"reasoning_content":1/,
    ],
    ['a number for its finish reason', eventStream({ choices: [{ finish_reason: 1 }] }), /:1/],
    [
      'a second answer behind the first',
      answerStream('one').replace('data: [DONE]\n\n', '') + answerStream('two'),
      /more after its finish_reason.*"content":"two"/,
    ],
    [
      'a tool call behind the finish reason',
      eventStream(
        chunk({ content: 'one' }, 'stop'),
        chunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{}' } }] }),
      ),
      /more after its finish_reason.*"name":"f"/,
    ],
    ['no choices', 'data: [DONE]\n\n', /no choices/],
    [
      'half a stream',
      eventStream(chunk({ content: 'half' })).replace('data: [DONE]\n\n', ''),
      /finish_reason/,
    ],
  ])('is an error, and asked once, when it holds %s', async (_what, body, message) => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, body))
    const error = await failure(context(policy.url).policy('main').complete({ messages }))
    expect(error).toMatchObject({
      code: 'policy_stream_error',
      message: expect.stringMatching(message),
    })
    expect(policy.requests).toHaveLength(1)
  })

  it.each([
    ['nothing', ''],
    ['what keeps a connection alive', ': ping\n\n: ping\r\n\r\n'],
    ['more of it than an error quotes', ': ping\n\n'.repeat(1000)],
  ])('is asked for again when the connection ends behind %s', async (_what, head) => {
    for (const isReset of [true, false]) {
      let asked = 0
      const policy = await startPolicyEndpoint((response) => {
        asked += 1
        if (asked > 1) return sendStream(response, answerStream('hello'))
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.flushHeaders()
        response.write(head || ' '.slice(0, 0), () =>
          isReset ? response.socket?.destroy() : response.end(),
        )
      })
      const { choices } = await context(policy.url).policy('main').complete({ messages })
      expect(choices).toMatchObject([{ message: { content: 'hello' } }])
      expect(policy.requests).toHaveLength(2)
    }
  })

  it('fails when the connection ends each time before the answer', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, ''))
    const error = await failure(context(policy.url).policy('main').complete({ messages }))
    expect(error).toMatchObject({ code: 'policy_stream_error' })
    expect(policy.requests).toHaveLength(3)
  })

  it.each([
    ['at once', (all: string) => [all]],
    // Only the end, because each byte is a piece.
    ['byte by byte', (all: string) => [all.slice(0, -100), ...all.slice(-100).split('')]],
  ])('is asked once when it begins behind many comments, and breaks, %s', async (_how, cut) => {
    const begun = `${': ping\n\n'.repeat(1000)}data: {"id":"x","choices":[{"index":0,"delta":{"content":"Hel`
    const policy = await startPolicyEndpoint((response) => {
      response.socket?.setNoDelay(true)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const pieces = cut(begun)
      const last = pieces.pop()
      for (const piece of pieces) response.write(piece)
      response.write(last, () => response.socket?.destroy())
    })
    const error = await failure(context(policy.url).policy('main').complete({ messages }))
    expect(error).toMatchObject({ code: 'policy_stream_error' })
    expect(policy.requests).toHaveLength(1)
  })

  // Without the fields that say nothing, because each byte is a request.
  const brief = eventStream(
    { choices: [{ index: 0, delta: { content: 'two words' }, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { choices: [], usage },
  )

  it('is an error at every byte where the connection can break before its finish reason, and asked once', async () => {
    const body = Buffer.from(brief)
    const finishAt = body.indexOf('"finish_reason":"stop"')
    const behindFinish = body.indexOf('\n\n', finishAt) + 2
    // Before the first byte nothing has been answered.
    let cut = 1
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(body.subarray(0, cut), () => response.socket?.destroy())
    })
    for (; cut < behindFinish; cut += 1) {
      const error = await failure(context(policy.url).policy('main').complete({ messages }))
      expect(error).toMatchObject({ code: 'policy_stream_error' })
    }
    expect(policy.requests).toHaveLength(behindFinish - 1)
    for (; cut <= body.length; cut += 1) {
      const { choices } = await context(policy.url).policy('main').complete({ messages })
      expect(choices).toMatchObject([{ message: { content: 'two words' } }])
    }
  })

  it('is never half an answer when the stream ends cleanly at any byte', async () => {
    const body = Buffer.from(brief)
    const finishAt = body.indexOf('"finish_reason":"stop"') + '"finish_reason":"stop"}]}'.length
    let cut = 0
    const policy = await startPolicyEndpoint((response) =>
      sendStream(response, body.subarray(0, cut).toString('utf8')),
    )
    const outcomes: string[] = []
    for (; cut <= body.length; cut += 1) {
      const outcome = await context(policy.url)
        .policy('main')
        .complete({ messages })
        .then(
          ({ choices }) => choices[0]?.message.content ?? '',
          () => 'error',
        )
      outcomes.push(outcome)
    }
    expect(new Set(outcomes.slice(0, finishAt))).toEqual(new Set(['error']))
    expect(new Set(outcomes.slice(finishAt))).toEqual(new Set(['two words']))
  })
})

describe('a failing policy', () => {
  it('is called again until it answers, as long as no answer has started', async () => {
    const policy = await startPolicyEndpoint((response, n) => {
      if (n === 1) sendJson(response, 503, { detail: 'loading' })
      else if (n === 2) response.socket?.destroy()
      else sendStream(response, answerStream('ok'))
    })
    const rollout = context(policy.url)
    await rollout.policy('main').complete({ messages })
    expect(policy.requests.map(({ raw }) => raw)).toEqual(
      Array.from({ length: 3 }, () => policy.requests[0]?.raw),
    )
  })

  it('is given up after two more tries, with the last error', async () => {
    const policy = await startPolicyEndpoint((response, n) =>
      sendJson(response, 500, { error: { message: `failure ${n}` } }),
    )
    const error = await failure(context(policy.url).policy('main').complete({ messages }))
    expect(error).toMatchObject({
      code: 'policy_http_error',
      status: 500,
      message: `The policy endpoint answered 500: failure 3 (${policy.url}/chat/completions)`,
    })
    expect(policy.requests).toHaveLength(3)
  })

  it('is called once when the caller retries itself', async () => {
    const policy = await startPolicyEndpoint((response) => sendJson(response, 503, {}))
    await failure(context(policy.url).policy('main').complete({ messages }, { retries: 0 }))
    expect(policy.requests).toHaveLength(1)
  })

  it('is left alone for as long as it asks to be', async () => {
    const times: number[] = []
    const policy = await startPolicyEndpoint((response, n) => {
      times.push(performance.now())
      if (n > 1) return sendStream(response, answerStream('ok'))
      response.writeHead(429, { 'retry-after': '1' }).end()
    })
    await context(policy.url).policy('main').complete({ messages })
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(990)
  })

  it('is left alone for the milliseconds it asks for, rather than seconds', async () => {
    const policy = await startPolicyEndpoint((response, n) => {
      if (n > 1) return sendStream(response, answerStream('ok'))
      response.writeHead(429, { 'retry-after-ms': '20', 'retry-after': '3600' }).end()
    })
    await context(policy.url).policy('main').complete({ messages })
    expect(policy.requests).toHaveLength(2)
  })

  it('is called once when it says that a retry does not help', async () => {
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(503, { 'x-should-retry': 'false' }).end()
    })
    const error = await failure(context(policy.url).policy('main').complete({ messages }))
    expect(error).toMatchObject({ code: 'policy_http_error', status: 503, shouldRetry: false })
    expect(policy.requests).toHaveLength(1)
  })

  it('is called again when it says that a retry helps', async () => {
    const policy = await startPolicyEndpoint((response, n) => {
      if (n > 1) return sendStream(response, answerStream('ok'))
      response.writeHead(400, { 'x-should-retry': 'true' }).end()
    })
    await context(policy.url).policy('main').complete({ messages })
    expect(policy.requests).toHaveLength(2)
  })

  it.each([400, 401, 403, 404, 422])('that answers %i is called once', async (status) => {
    const policy = await startPolicyEndpoint((response) =>
      sendJson(response, status, { detail: 'no' }),
    )
    const error = await failure(context(policy.url).policy('main').complete({ messages }))
    expect(error).toMatchObject({ code: 'policy_http_error', status })
    expect(policy.requests).toHaveLength(1)
  })

  it('that refuses the key is met with a hint, and the key appears nowhere', async () => {
    const policy = await startPolicyEndpoint((response) =>
      sendJson(response, 401, { error: { message: 'bad key secret-key' } }),
    )
    const rollout = context(policy.url)
    const error = await failure(rollout.policy('main').complete({ messages }))
    expect(error).toMatchObject({
      message: `The policy endpoint answered 401: bad key [redacted]. Check the API key that the rollout was sent with (apiKey). (${policy.url}/chat/completions)`,
    })
    expect(
      inspect([error, rollout, rollout.policy('main')], { depth: 9, showHidden: true }),
    ).not.toContain('secret-key')
    expect(JSON.stringify(rollout)).not.toContain('secret-key')
  })

  it('that repeats the key where its answer is cut off shows no part of it', async () => {
    const policy = await startPolicyEndpoint((response) =>
      sendJson(response, 401, { error: { message: `${'x'.repeat(495)} secret-key` } }),
    )
    const error = await failure(context(policy.url).policy('main').complete({ messages }))
    expect(String(error)).toContain('xxx')
    expect(String(error)).not.toContain('secr')
  })

  it.each([
    ['in the usual sentence', String.raw`{"error":{"message":"bad key abc\/def+secret\u003d="}}`],
    [
      'in a body of its own shape',
      String.raw`{"status":1,"info":"bad key abc\/def+secret=\u003D"}`,
    ],
    ['in a text', String.raw`"bad key \u0061bc\/def\u002bsecret=="`],
  ])(
    'that repeats the key %s, escaped as JSON may have it, shows none of it',
    async (_at, said) => {
      const policy = await startPolicyEndpoint((response) => {
        response.writeHead(401, { 'content-type': 'application/json' }).end(said)
      })
      const rollout = context(policy.url, { apiKey: 'abc/def+secret==' })
      const error = await failure(rollout.policy('main').complete({ messages }))
      expect(String(error)).toMatch(/bad key \[redacted\]["}]*\. Check/)
    },
  )

  it('that cannot be reached is an error that says where it was looked for', async () => {
    const error = await failure(
      context('http://127.0.0.1:1/v1', { policyLimits: { awaySeconds: 0 } })
        .policy('main')
        .complete({ messages }),
    )
    expect(error).toMatchObject({
      code: 'policy_unreachable',
      message:
        'No answer from the policy endpoint: connect ECONNREFUSED 127.0.0.1:1 (http://127.0.0.1:1/v1/chat/completions)',
    })
  })
})

describe('ending a call', () => {
  it('closes the socket and throws the reason, before the answer and in the middle of it', async () => {
    for (const opening of ['', eventStream(chunk({ content: 'half' })).slice(0, -14)]) {
      const arrived = Promise.withResolvers<undefined>()
      const policy = await startPolicyEndpoint((response) => {
        if (opening !== '') {
          response.writeHead(200, { 'content-type': 'text/event-stream' }).write(opening)
        }
        arrived.resolve(undefined)
      })
      const abort = new AbortController()
      const call = failure(
        context(policy.url).policy('main').complete({ messages }, { signal: abort.signal }),
      )
      await arrived.promise
      const reason = new Error('enough')
      abort.abort(reason)
      expect(await call).toBe(reason)
      expect(await policy.requests[0]?.closed).toBe(true)
    }
  })

  it('happens with the rollout, and later calls of that rollout are refused', async () => {
    const abort = new AbortController()
    const policy = await startPolicyEndpoint(() => abort.abort(new Error('deadline')))
    const client = context(policy.url, { signal: abort.signal }).policy('main')
    expect(await failure(client.complete({ messages }))).toEqual(new Error('deadline'))
    expect(await failure(client.complete({ messages }))).toEqual(new Error('deadline'))
    expect(policy.requests).toHaveLength(1)
  })

  it('also ends the wait before another try', async () => {
    const abort = new AbortController()
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(503, { 'retry-after': '30' }).end()
      setTimeout(() => abort.abort(new Error('enough')), 50)
    })
    const error = await failure(
      context(policy.url).policy('main').complete({ messages }, { signal: abort.signal }),
    )
    expect(error).toEqual(new Error('enough'))
  })

  it('by an abort when the last chunk has come gives no answer either', async () => {
    const policy = await startPolicyEndpoint((response) => {
      sendStream(response, eventStream(chunk({ content: 'a' }, 'stop')))
    })
    const abort = new AbortController()
    const read = async (): Promise<void> => {
      const client = context(policy.url).policy('main')
      for await (const _ of client.stream({ messages }, { signal: abort.signal })) {
        abort.abort(new Error('enough'))
      }
    }
    expect(await failure(read())).toEqual(new Error('enough'))
  })

  it('by no longer reading closes the socket', async () => {
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(eventStream(chunk({ content: 'a' })).slice(0, -14))
    })
    for await (const part of context(policy.url).policy('main').stream({ messages })) {
      expect((part satisfies ChatCompletionChunk).choices[0]?.delta?.content).toBe('a')
      break
    }
    expect(await policy.requests[0]?.closed).toBe(true)
  })
})

it('uses the connections of a conversation again', async () => {
  const ports = new Set<number | undefined>()
  const policy = await startPolicyEndpoint((response) => {
    ports.add(response.socket?.remotePort)
    sendStream(response, answerStream('ok'))
  })
  const client = context(policy.url).policy('main')
  for (let call = 0; call < 10; call += 1) {
    await client.complete({ messages })
  }
  // A connection serves again one turn after its answer, for which the next call does not wait.
  expect(ports.size).toBeLessThanOrEqual(3)
})
