import { once } from 'node:events'
import { connect } from 'node:net'
import { text as wholeText } from 'node:stream/consumers'
import { promisify } from 'node:util'
import * as zlib from 'node:zlib'

import type { PolicyProxyOptions } from '@osmosis/proxy'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import {
  type ArbitraryRequest,
  arbitraryRequests,
  mostlyValid,
  sendBytes,
} from '../../../test/kit/arbitrary-requests.ts'
import { answerStream, sendStream, runs } from '../../../test/kit/index.ts'
import { json, post, proxied, type ProxiedRollout } from './proxied.ts'

/** A rollout whose policy always answers. */
const ready = async (options: PolicyProxyOptions = {}): Promise<ProxiedRollout> =>
  proxied(
    (response) => sendStream(response, answerStream('ok')),
    () => options,
  )

const said = (content: unknown): object[] => [{ role: 'user', content }]
/** The paths of the dialects, and bodies that each of them accepts. */
const dialects = [
  ['/v1/chat/completions', (content: unknown) => ({ messages: said(content) })],
  ['/v1/messages', (content: unknown) => ({ max_tokens: 5, messages: said(content) })],
  ['/v1/responses', (content: unknown) => ({ input: said(content) })],
] as const

const pack = {
  gzip: promisify<Uint8Array, Buffer>(zlib.gzip),
  'x-gzip': promisify<Uint8Array, Buffer>(zlib.gzip),
  GZIP: promisify<Uint8Array, Buffer>(zlib.gzip),
  deflate: promisify<Uint8Array, Buffer>(zlib.deflate),
  br: promisify<Uint8Array, Buffer>(zlib.brotliCompress),
  zstd: promisify<Uint8Array, Buffer>(zlib.zstdCompress),
  identity: async (bytes: Uint8Array) => Buffer.from(bytes),
}
const coding = fc.constantFrom(...(Object.keys(pack) as (keyof typeof pack)[]))

async function packed(text: string, codings: readonly (keyof typeof pack)[]): Promise<Uint8Array> {
  let bytes: Uint8Array = Buffer.from(text)
  for (const name of codings) bytes = await pack[name](bytes)
  return bytes
}

const send = (url: string, body: Uint8Array, encoding: string): Promise<Response> =>
  fetch(url, { ...post(''), body: Buffer.from(body), headers: { 'content-encoding': encoding } })

/** @returns what is answered to bodies with one byte more than that */
async function answersToMoreThan(
  maxBytes: number,
  path: string,
  options: PolicyProxyOptions,
): Promise<string[]> {
  const { policy, proxy } = await ready(options)
  const url = proxy.anthropicUrl + path
  const tooLarge = new Uint8Array(maxBytes + 1)
  const streamed = {
    ...post(''),
    duplex: 'half',
    body: new Blob([tooLarge]).stream(),
  } as RequestInit
  const answers = [
    await fetch(url, { ...post(''), body: tooLarge }),
    await fetch(url, streamed),
    await send(url, zlib.gzipSync(tooLarge), 'gzip'),
    await send(
      url,
      zlib.zstdCompressSync(
        zlib.brotliCompressSync(tooLarge, {
          params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 },
        }),
      ),
      'br, zstd',
    ),
  ]
  expect(policy.requests).toHaveLength(0)
  return Promise.all(answers.map(async (answer) => `${answer.status} ${await answer.text()}`))
}

describe.each(dialects)('a body for %s', (path, bodyOf) => {
  it('is read however it is packed', async () => {
    const { policy, proxy } = await ready()
    const content = fc.string({ unit: 'grapheme', minLength: 1 })
    await fc.assert(
      fc.asyncProperty(content, fc.array(coding, { maxLength: 3 }), async (words, codings) => {
        const body = await packed(JSON.stringify(bodyOf(words)), codings)
        const answer = await send(proxy.anthropicUrl + path, body, codings.join(', '))
        await answer.text()
        expect(answer.status).toBe(200)
        expect(policy.requests.at(-1)?.body.messages).toEqual(said(words))
      }),
      { numRuns: runs(50) },
    )
  })

  it('may be packed with deflate without the header of zlib', async () => {
    const { policy, proxy } = await ready()
    const body = zlib.deflateRawSync(JSON.stringify(bodyOf('hi')))
    expect((await send(proxy.anthropicUrl + path, body, 'deflate')).status).toBe(200)
    expect(policy.requests[0]?.body.messages).toEqual(said('hi'))
  })

  it('that was cut is malformed, packed or not', async () => {
    const { policy, proxy } = await ready()
    await fc.assert(
      fc.asyncProperty(
        coding,
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        async (name, share) => {
          const body = await packed(JSON.stringify(bodyOf('hi')), [name])
          const cut = body.subarray(0, Math.floor(share * body.length))
          const answer = await send(proxy.anthropicUrl + path, cut, name)
          await answer.text()
          expect(answer.status).toBe(400)
        },
      ),
      { numRuns: runs(50) },
    )
    expect(policy.requests).toHaveLength(0)
  })

  it.each([
    ['no JSON', 'hello', 'body: expected JSON, got \\"hello\\".'],
    ['no object', '[1]', 'body: expected an object, got [1].'],
    ['nothing', '', 'body: expected JSON'],
    ['bytes that are not UTF-8', Uint8Array.of(0x22, 0xff, 0x22), 'body: expected UTF-8'],
    [
      '10,000 nested lists',
      `{"tools":[{"input_schema":${'['.repeat(1e4)}${']'.repeat(1e4)},"name":"a","type":"function","parameters":${'['.repeat(1e4)}${']'.repeat(1e4)}}],"messages":[{"role":"user","content":"a"}],"input":"a"}`,
      'body: nested too deeply',
    ],
  ])('that has %s is refused, and nothing is asked', async (_, body, message) => {
    const { policy, proxy } = await ready()
    const answer = await send(proxy.anthropicUrl + path, Buffer.from(body), '')
    expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([400, 'false'])
    expect(await answer.text()).toContain(message)
    expect(policy.requests).toHaveLength(0)
  })

  it('is bounded, as it arrives and unpacked', async () => {
    const answers = await answersToMoreThan(65_536, path, { maxBodyBytes: 65_536 })
    const refused: unknown = expect.stringMatching(/^413 .*body: expected at most 65536 bytes/)
    expect(answers).toEqual([refused, refused, refused, refused])
  })

  it('that is too large is answered also to a client that first sends all of it', async () => {
    const { proxy } = await ready({ maxBodyBytes: 65_536 })
    const { hostname, port, pathname } = new URL(proxy.anthropicUrl + path)
    const socket = connect(Number(port), hostname)
    const head = `POST ${pathname} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n`
    const piece = `100000\r\n${' '.repeat(0x100000)}\r\n`
    // More than the buffers of both sides.
    for (const text of [head, ...Array.from({ length: 24 }, () => piece)]) {
      if (!socket.write(text)) await once(socket, 'drain')
    }
    socket.write('0\r\n\r\n')
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1.1 413 /)
    socket.destroy()
  })

  it('that is packed in an unknown way is refused with the ways that are known', async () => {
    const { proxy } = await ready()
    for (const encoding of ['compress', 'constructor', 'gzip, lzma']) {
      const answer = await send(proxy.anthropicUrl + path, Buffer.from('{}'), encoding)
      expect(answer.status).toBe(415)
      expect(await answer.text()).toContain(
        'content-encoding: expected gzip, x-gzip, deflate, br, zstd or none',
      )
    }
  })
})

it('a body is bounded by 64 MiB where nothing else is said', { tags: 'nightly' }, async () => {
  const answers = await answersToMoreThan(64 * 1024 * 1024, dialects[0][0], {})
  const refused: unknown = expect.stringMatching(/^413 .*body: expected at most 67108864 bytes/)
  expect(answers).toEqual([refused, refused, refused, refused])
})

/** The status of the answer to exactly these bytes. */
async function statusOf(url: string, bytes: Uint8Array): Promise<number> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  await once(socket, 'connect')
  // Not ended: a caller that closes its side before the answer gets none.
  socket.write(bytes)
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(await wholeText(socket))?.[1])
}

function bytesOf({ method, path, headers, body }: ArbitraryRequest): Uint8Array {
  const fields = [...headers, ['content-length', body.length], ['connection', 'close']]
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'host: x',
    ...fields.map((field) => field.join(': ')),
  ]
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), body])
}

const arbitraryText = fc.string({ unit: 'grapheme-ascii' })

it('knows no request line that is no URL, and answers the next request', async () => {
  const { proxy } = await ready()
  const target = fc.oneof(
    fc.constantFrom(
      '//',
      '///',
      '*',
      '?',
      'http://',
      'http://[',
      '//:x',
      '/\\',
      'http://a:b:c/',
      '%',
      '//@:/v1/messages',
    ),
    arbitraryText.map((text) => text.replaceAll(' ', '')).filter((text) => text !== ''),
  )
  await fc.assert(
    fc.asyncProperty(fc.constantFrom('GET', 'POST', 'OPTIONS'), target, async (method, line) => {
      const request = { method, path: line, headers: [], body: new Uint8Array() }
      // 400: the HTTP parser of Node.js accepts no such line.
      expect([404, 400]).toContain(await statusOf(proxy.url, bytesOf(request)))
    }),
    { numRuns: runs(200) },
  )
  const request = { method: 'GET', path: '//', headers: [], body: new Uint8Array() }
  expect(await statusOf(proxy.url, bytesOf(request))).toBe(404)
  expect((await fetch(`${proxy.url}/messages`, post(dialects[1][1]('hi')))).status).toBe(200)
})

it('survives every sequence of bytes', async () => {
  const { proxy } = await ready()
  const { pathname } = new URL(proxy.url)
  const line = fc.constantFrom(
    `POST ${pathname}/messages HTTP/1.1`,
    `POST ${pathname}/responses HTTP/1.1`,
    'GET // HTTP/1.1',
    'CONNECT //:x HTTP/1.1',
    'CONNECT a:1 HTTP/1.1',
    'OPTIONS * HTTP/1.1',
    'host: here',
    'content-length: 5',
    'content-length: -1',
    'transfer-encoding: chunked',
    'content-encoding: gzip',
    'expect: 100-continue',
    'expect: something',
    'upgrade: websocket',
    'connection: upgrade',
    '5',
    '{"a":1}',
    '',
  )
  const bytes = fc.oneof(
    fc.array(line, { maxLength: 12 }).map((lines) => Buffer.from(lines.join('\r\n'))),
    fc.uint8Array({ maxLength: 500 }),
  )
  await fc.assert(
    fc.asyncProperty(bytes, async (sent) => {
      // None when the bytes are no complete request, or the caller has gone before the answer.
      const allowed = [undefined, 100, 400, 404, 408, 415, 417, 431]
      expect(allowed).toContain(await sendBytes(proxy.url, sent))
    }),
    { numRuns: runs(300) },
  )
  expect((await fetch(`${proxy.url}/messages`, post(dialects[1][1]('hi')))).status).toBe(200)
})

it('answers every request with a status that says who is wrong', async () => {
  const { proxy } = await ready()
  const routes = ['chat/completions', 'messages', 'messages/count_tokens', 'responses']
  const { pathname } = new URL(proxy.url)
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
  const turns = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'hi' }] },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c', content: 'seen' },
  ]
  const value = fc.jsonValue({ maxDepth: 3 })
  const arbitraryTurn = fc.record(
    { role: fc.constantFrom('user', 'assistant', 'system'), content: value, tool_calls: value },
    { requiredKeys: ['role'] },
  )
  const bodies = fc.oneof(
    mostlyValid(
      { messages: turns, stream: true, tools: [], temperature: 1, n: 1, stream_options: {} },
      { ...dialects[1][1]('hi'), system: 'x', tools: [{ name: 'a', input_schema: {} }] },
      { ...dialects[2][1]('hi'), instructions: 'x', tools: [], text: {}, store: true },
    ),
    fc.array(arbitraryTurn, { minLength: 1 }).map((messages) => ({ messages, input: messages })),
  )
  const seen = new Set<number>()
  await fc.assert(
    fc.asyncProperty(
      arbitraryRequests(
        routes.map((route) => `${pathname}/${route}`),
        bodies,
      ),
      async (request) => {
        const status = await statusOf(proxy.url, bytesOf(request))
        expect([200, 400, 404, 405, 415]).toContain(status)
        seen.add(status)
      },
    ),
    { numRuns: runs(300) },
  )
  expect([...seen]).toEqual(expect.arrayContaining([200, 400, 404, 405]))
  expect(await json(fetch(`${proxy.url}/messages`, post(dialects[1][1]('hi'))))).toMatchObject({
    content: [{ text: 'ok' }],
  })
})
