import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setImmediate } from 'node:timers/promises'
import { brotliCompressSync, gzipSync } from 'node:zlib'

import { isOsmosisError, RolloutContext, type PolicyClient } from '@osmosis/core'
import type { ChatCompletion } from '@osmosis/core/policy'
import { describe, expect, it, onTestFinished } from 'vitest'

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

/** What a call to a policy at `url` fails with. */
async function failure(url: string): Promise<unknown> {
  return complete(url).then(
    () => expect.fail('should have been refused'),
    (error: unknown) => error,
  )
}

function client(url: string): PolicyClient {
  return new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: url }).policy('main')
}

async function complete(url: string): Promise<ChatCompletion> {
  return client(url).complete({ messages })
}

describe('an answer of the policy', () => {
  it.each([
    ['no object', null],
    ['a numeric name', { index: 0, id: 'c', function: { name: 5, arguments: '{}' } }],
    ['a numeric id', { index: 0, id: 5, function: { name: 'f', arguments: '{}' } }],
    ['index -1', { index: -1, id: 'c', function: { name: 'f', arguments: '{}' } }],
    ['half an index', { index: 0.5, id: 'c', function: { name: 'f', arguments: '{}' } }],
    ['a text for an index', { index: '0', id: 'c', function: { name: 'f', arguments: '{}' } }],
    ['a number for arguments', { index: 0, id: 'c', function: { name: 'f', arguments: 5 } }],
    ['a text for a function', { index: 0, id: 'c', function: 'f' }],
  ])('is an error, streamed or whole, when a tool call has %s', async (_what, call) => {
    const streamed = await startPolicyEndpoint((response) =>
      sendStream(response, eventStream(chunk({ tool_calls: [call] }, 'tool_calls'))),
    )
    const message = { role: 'assistant', content: null, tool_calls: [call] }
    const whole = await startPolicyEndpoint((response) =>
      sendJson(response, 200, { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }),
    )
    for (const { url } of [streamed, whole]) {
      const error = await failure(url)
      expect(error).toMatchObject({
        code: 'policy_stream_error',
        message: expect.stringMatching(/cannot be read: .*"tool_calls":/),
      })
    }
  })

  const page =
    '<!doctype html><html><head><style>p { color: red }</style></head><body><p>Not&nbsp;here &amp; never</p></body></html>'

  it.each([
    [200, 'a page', { 'content-type': 'text/html; charset=utf-8' }, page],
    [502, 'a page', { 'content-type': 'text/html' }, page],
    [200, 'compressed', { 'content-encoding': 'gzip' }, gzipSync(page)],
    [503, 'compressed', { 'content-encoding': 'br' }, brotliCompressSync(page)],
    [200, 'a text', { 'content-type': 'text/plain' }, 'Not here & never'],
    [400, 'a text', { 'content-type': 'text/plain' }, 'Not here & never'],
  ])('of %i that is %s is reported with its readable text', async (status, _, headers, body) => {
    const policy = await startPolicyEndpoint((response) =>
      response.writeHead(status, headers).end(body),
    )
    const what = {
      'text/html': 'text/html',
      'text/plain': 'text/plain',
      gzip: 'no content type, compressed with gzip',
      br: 'no content type, compressed with br',
    }[String(Object.values(headers)[0]).replace(/;.*/, '')]
    const none = status === 200 ? ', which is not a chat completion' : ''
    const error = await client(policy.url)
      .complete({ messages }, { retries: 0 })
      .catch((failed: unknown) => failed)
    expect(error).toMatchObject({
      message: expect.stringMatching(
        new RegExp(`answered ${status} with ${what}${none}: Not here & never(?: \\(http|$)`),
      ),
    })
  })

  it('that is a page is reported without the query of the URL, which may hold a key', async () => {
    const policy = await startPolicyEndpoint((response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end(page),
    )
    const error = await client(`${policy.url}?api-key=the-secret-key`)
      .complete({ messages })
      .catch((failed: unknown) => failed)
    expect(policy.requests[0]?.path).toBe('/v1/chat/completions?api-key=the-secret-key')
    expect(error).toMatchObject({
      message: `The policy endpoint answered 200 with text/html, which is not a chat completion: Not here & never (${policy.url}/chat/completions)`,
    })
  })

  it('that is a page is reported with 200 characters of it, and without the key', async () => {
    const policy = await startPolicyEndpoint((response) =>
      response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(`<html>the-secret-key ${'x'.repeat(5000)}</html>`),
    )
    const context = new RolloutContext({
      rolloutId: 'r',
      chatCompletionsUrl: policy.url,
      apiKey: 'the-secret-key',
    })
    const error = await context.policy('main').complete({ messages }).catch(String)
    expect(error).toMatch(/completion: \[redacted\] x{189} \(/)
  })

  it.each([
    ['a number for its text', { choices: [{ message: { content: 5 } }] }],
    ['a text for a message', { choices: [{ message: 'hi' }] }],
    ['no message', { choices: [{ index: 0 }] }],
    ['no list of choices', { choices: {} }],
  ])('is an error when it is one JSON object with %s', async (_what, answer) => {
    const policy = await startPolicyEndpoint((response) => sendJson(response, 200, answer))
    const error = await failure(policy.url)
    expect(error).toMatchObject({
      code: 'policy_stream_error',
      message: expect.stringMatching(/cannot be read: .*"choices":/),
    })
    expect(policy.requests).toHaveLength(1)
  })

  it.each([
    ['a byte that begins no character', [0xff]],
    ['half a character', [0xf0, 0x9f, 0x99]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
  ])('is an error when it holds %s, however its bytes are split', async (_what, bytes) => {
    const [before = '', after = ''] = answerStream('before@after').split('@')
    const json = JSON.stringify({ choices: [{ message: { content: '@' }, finish_reason: 'stop' }] })
    const [open = '', close = ''] = json.split('@')
    const bodies: [string, Buffer][] = [
      [
        'text/event-stream',
        Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)]),
      ],
      [
        'application/json',
        Buffer.concat([Buffer.from(open), Buffer.from(bytes), Buffer.from(close)]),
      ],
    ]
    for (const [contentType, body] of bodies) {
      for (const size of [1, body.length]) {
        const policy = await startPolicyEndpoint((response) => {
          response.writeHead(200, { 'content-type': contentType })
          for (let at = 0; at < body.length; at += size)
            response.write(body.subarray(at, at + size))
          response.end()
        })
        const error = await failure(policy.url)
        expect(error).toMatchObject({
          code: 'policy_stream_error',
          message: expect.stringMatching(/not UTF-8 text/),
        })
      }
    }
  })

  it('may repeat its finish reason, empty deltas and its usage behind the finish reason', async () => {
    const policy = await startPolicyEndpoint((response) =>
      sendStream(
        response,
        eventStream(
          chunk({ content: 'whole' }, 'stop'),
          chunk({ content: '', tool_calls: [] }, 'stop'),
          chunk({ role: 'assistant', content: null, reasoning: null }),
          { ...chunk({}), id: '', choices: [], usage },
          { ...chunk({}), choices: [], usage },
        ),
      ),
    )
    const completion = await complete(policy.url)
    expect(completion).toMatchObject({
      choices: [{ message: { content: 'whole' }, finish_reason: 'stop' }],
      usage,
    })
  })

  it('is an error when the connection breaks behind the status line each time it is asked', async () => {
    const policy = await startPolicyEndpoint((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      void setImmediate().then(() => response.socket?.destroy())
    })
    const error = await failure(policy.url)
    expect(isOsmosisError(error)).toBe(true)
    expect(error).toMatchObject({
      code: 'policy_stream_error',
      message: expect.stringMatching(/^The answer of the policy broke off: /),
    })
    expect(policy.requests).toHaveLength(3)
  })

  it('reports the last error of the policy although the connection breaks right after it', async () => {
    const broken = Promise.withResolvers<unknown>()
    subscribe('undici:request:error', broken.resolve)
    onTestFinished(() => void unsubscribe('undici:request:error', broken.resolve))
    const started = Promise.withResolvers<void>()
    const policy = await startPolicyEndpoint(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(eventStream(chunk({ content: 'half' })).replace('data: [DONE]\n\n', ''))
      await started.promise
      const report = 'event: error\ndata: {"error":{"message":"out of memory"}}\n\n'
      response.write(report, () => response.socket?.destroy())
    })
    const chunks = client(policy.url).stream({ messages })[Symbol.asyncIterator]()
    expect(await chunks.next()).toMatchObject({ done: false })
    started.resolve()
    // A reader that is slower than the end of the connection.
    await broken.promise
    await setImmediate()
    await expect(chunks.next()).rejects.toThrow('reported an error in its answer: out of memory')
  })
})
