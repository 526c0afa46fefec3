import { StreamedAnswer } from '@osmosis/core/policy'
import { expect, it, onTestFinished, vi } from 'vitest'

import { chunk } from '../../../test/kit/index.ts'
import { post, proxied } from './proxied.ts'

const user = [{ role: 'user', content: 'hi' }]
const dialects = [
  { path: '/v1/messages', body: { max_tokens: 9, messages: user }, ping: /^event: ping\n/gm },
  { path: '/v1/responses', body: { input: user }, ping: /^: ping\n/gm },
  { path: '/v1/chat/completions', body: { messages: user }, ping: /^: ping\n/gm },
]

/** A stream whose policy says one word, and nothing more until `goOn`. */
async function silentAfterOneWord(path: string, body: object) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const going = Promise.withResolvers<void>()
  const { proxy } = await proxied((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const send = (delta: object, finish?: string): void => {
      response.write(`data: ${JSON.stringify(chunk(delta, finish))}\n\n`)
    }
    send({ content: 'one' })
    void (async () => {
      await going.promise
      send({ content: 'two' }, 'stop')
      response.end('data: [DONE]\n\n')
    })()
  })
  const gone = new AbortController()
  const init = { ...post({ ...body, stream: true }), signal: gone.signal }
  const answered = await fetch(proxy.anthropicUrl + path, init)
  const reader = (answered.body as ReadableStream<Uint8Array>).getReader()
  let text = ''
  const readUntil = async (pattern: RegExp): Promise<string> => {
    const decoder = new TextDecoder()
    while (!pattern.test(text)) {
      const { value, done } = await reader.read()
      if (done) throw new Error(`ended without ${pattern}: ${text}`)
      text += decoder.decode(value)
    }
    return text
  }
  await readUntil(/one/)
  return { going, gone, readUntil }
}

it.each(dialects)('$path has a ping for each 15 s in which nothing comes', async (dialect) => {
  const { path, body, ping } = dialect
  const { going, readUntil } = await silentAfterOneWord(path, body)
  vi.advanceTimersByTime(14_000)
  vi.advanceTimersByTime(600_000 - 14_000)
  going.resolve()
  const text = await readUntil(/\[DONE\]|message_stop|response\.completed/)
  expect(text.match(ping)).toHaveLength(40)
  // Between events, never within one.
  for (const event of text.split('\n\n')) {
    expect(event).toMatch(/^$|^: ping$|^(?:event: \S+\n)?data: \S.*$/)
  }
  expect(vi.getTimerCount()).toBe(0)
})

it('clients of chat completions read such a stream as if nothing had been there', async () => {
  const { going, readUntil } = await silentAfterOneWord('/v1/chat/completions', {
    messages: user,
  })
  vi.advanceTimersByTime(60_000)
  going.resolve()
  const answer = new StreamedAnswer('text/event-stream')
  answer.add([new TextEncoder().encode(await readUntil(/\[DONE\]/))])
  const said: unknown[] = []
  for (let read = answer.read(); read; read = answer.read())
    said.push(read.choices[0]?.delta?.content)
  expect(said).toEqual(['one', 'two'])
})

it.each(dialects)('$path has no pings when the client has gone', async ({ path, body }) => {
  const { gone } = await silentAfterOneWord(path, body)
  gone.abort()
  await expect.poll(() => vi.getTimerCount()).toBe(0)
})
