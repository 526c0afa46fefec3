import { createConnection } from 'node:net'

import { fault, type Faults, sseOf, startPolicyServer } from '@osmosis/testing'
import { describe, expect, it } from 'vitest'

import { ask, askForStream } from './ask.ts'

const withUsage = { stream_options: { include_usage: true } }

describe('faults of a reply', () => {
  it('answers with any status, headers and body', async () => {
    await using server = await startPolicyServer([
      fault.status(503, { headers: { 'retry-after': '7' } }),
      fault.status(401, { body: { error: { message: 'who?' } } }),
      fault.status(502, { body: '<html>', headers: { 'content-type': 'text/html' } }),
    ])
    const seen = []
    for (let n = 0; n < 3; n += 1) {
      const { status, headers, ...answer } = await snapshot(await ask(server.url))
      seen.push([status, headers.get('content-type'), headers.get('retry-after'), answer.text])
    }
    expect(seen).toStrictEqual([
      [
        503,
        'application/json',
        '7',
        '{"error":{"message":"scripted status 503","type":"scripted_error","code":"scripted"}}',
      ],
      [401, 'application/json', null, '{"error":{"message":"who?"}}'],
      [502, 'text/html', null, '<html>'],
    ])
  })

  it('destroys the socket after every possible number of bytes', async () => {
    const short = 'data: {}\n\ndata: [DONE]\n\n'
    const long = sseOf('a b')
    const every = Array.from({ length: short.length + 1 }, (_, bytes) => bytes)
    const events = [...long.matchAll(/\n\n/g)].flatMap(({ index: end }) => [end, end + 1, end + 2])
    const cuts = [
      ...every.map((bytes) => ({ whole: short, faults: { raw: short, cutAfterBytes: bytes } })),
      ...events.map((bytes) => ({ whole: long, faults: { cutAfterBytes: bytes } })),
    ]
    await using server = await startPolicyServer(cuts.map(({ faults }) => fault.on('a b', faults)))
    for (const { whole, faults } of cuts) {
      const { text, broken } = await readAll(await askForStream(server.url, withUsage))
      const arrived = whole.slice(0, faults.cutAfterBytes)
      expect({ text, broken }).toStrictEqual({ text: arrived, broken: true })
    }
  })

  it('ends the body cleanly after a number of bytes', async () => {
    await using server = await startPolicyServer([fault.on('a b', { endAfterBytes: 20 })])
    expect(await readAll(await askForStream(server.url, withUsage))).toStrictEqual({
      text: sseOf('a b').slice(0, 20),
      broken: false,
      reads: 1,
    })
  })

  it('writes the body in pieces that arrive one by one', async () => {
    await using server = await startPolicyServer([fault.on('héllo', { chunkBytes: 1 })])
    const { pathname, port } = new URL(`${server.url}/chat/completions`)
    const body = JSON.stringify({ stream: true, ...withUsage })
    const socket = createConnection(Number(port), '127.0.0.1')
    socket.write(
      `POST ${pathname} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    let raw = ''
    for await (const part of socket.setEncoding('latin1')) raw += String(part)
    const chunks = [
      ...raw.slice(raw.indexOf('\r\n\r\n') + 4).matchAll(/([0-9a-f]+)\r\n([^]*?)\r\n/g),
    ]
    const pieces = chunks.map(([, , piece = '']) => piece).filter((piece) => piece !== '')
    expect(pieces.every((piece) => piece.length === 1)).toBe(true)
    expect(Buffer.from(pieces.join(''), 'latin1').toString()).toBe(sseOf('héllo'))
  })

  it('cuts the connection before the headers', async () => {
    await using server = await startPolicyServer([fault.on('', { cutBeforeHeaders: true })])
    await expect(ask(server.url)).rejects.toThrow('fetch failed')
    expect(await server.requests[0]?.closed).toBe(false)
  })

  it('waits before the headers, or between headers and body', async () => {
    await using server = await startPolicyServer([
      fault.on('x', { delayMs: 30 }),
      fault.on('x', { delayFirstByteMs: 30 }),
      fault.on('x', { delayFirstByteMs: 3_600_000 }),
    ])
    const started = performance.now()
    const afterHeaders = await askForStream(server.url)
    expect(performance.now() - started).toBeGreaterThanOrEqual(25)
    await afterHeaders.text()

    const startedAgain = performance.now()
    await (await askForStream(server.url)).text()
    expect(performance.now() - startedAgain).toBeGreaterThanOrEqual(25)

    const abort = new AbortController()
    const headersOnly = await askForStream(server.url, {}, abort.signal)
    abort.abort()
    await expect(headersOnly.text()).rejects.toThrow('aborted')
  })

  it('hangs before the headers until the client leaves', async () => {
    await using server = await startPolicyServer([fault.hang('headers')])
    const leaving = new AbortController()
    const answer = ask(server.url, {}, leaving.signal)
    const leave = async (): Promise<void> => {
      await expect.poll(() => server.requests.length).toBe(1)
      setTimeout(() => leaving.abort(), 40)
    }
    await Promise.all([expect(answer).rejects.toThrow('aborted'), leave()])
    expect(await server.requests[0]?.closed).toBe(true)
  })

  it('hangs in the body after its first event', async () => {
    await using server = await startPolicyServer([fault.hang('body')])
    const leaving = new AbortController()
    const answer = await askForStream(server.url, {}, leaving.signal)
    const { text, broken } = await readAll(answer, () => setTimeout(() => leaving.abort(), 40))
    expect({ text, broken }).toStrictEqual({
      text: sseOf('never heard').split(/(?<=\n\n)/)[0],
      broken: true,
    })
    expect(await server.requests[0]?.closed).toBe(true)
  })

  it('answers a request for a stream with JSON', async () => {
    await using server = await startPolicyServer([fault.on('x', { json: true })])
    const answer = await askForStream(server.url)
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(await answer.json()).toMatchObject({ object: 'chat.completion' })
  })

  it('sends exactly the text it is given', async () => {
    const text = 'data: {"cho\n\n: ?\r\ndata:[DONE]'
    await using server = await startPolicyServer([fault.raw(text)])
    expect(await (await askForStream(server.url)).text()).toBe(text)
  })

  it.each<[string, Faults]>([
    ['comments', { comments: true }],
    ['CRLF', { crlf: true }],
    ['one fat chunk', { oneFatChunk: true }],
    ['no role', { omit: ['role'] }],
    ['an error event', { errorEvent: 'boom' }],
  ])('sends a stream with %s as sseOf spells it', async (_name, faults) => {
    await using server = await startPolicyServer([fault.on('one two', faults)])
    expect(await (await askForStream(server.url, withUsage)).text()).toBe(sseOf('one two', faults))
  })
})

async function snapshot(
  answer: Response,
): Promise<{ status: number; headers: Headers; text: string }> {
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

async function readAll(
  answer: Response,
  onBytes?: () => void,
): Promise<{ text: string; broken: boolean; reads: number }> {
  const decoder = new TextDecoder()
  let text = ''
  let reads = 0
  try {
    for await (const bytes of answer.body ?? []) {
      text += decoder.decode(bytes as Uint8Array, { stream: true })
      reads += 1
      onBytes?.()
    }
    return { text, broken: false, reads }
  } catch {
    return { text, broken: true, reads }
  }
}
