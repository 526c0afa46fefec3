import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

import { createTransport, webBody } from '@osmosis/core/http'
import { boundedText } from '@osmosis/protocol/http'
import { describe, expect, it, onTestFinished } from 'vitest'

const words = {
  name: 'server',
  codes: { unreachable: 'protocol_error', refused: 'protocol_error' },
} as const
const never = new AbortController().signal

describe('the body of an answer', () => {
  it('closes the connection when its reader stops early', async () => {
    const { url, sockets } = await listen((_, response) => response.write('first'))
    const { body } = await createTransport(words).send(url, { headers: {}, signal: never })
    for await (const piece of body) {
      expect(Buffer.from(piece).toString()).toBe('first')
      break
    }
    expect(await closed(sockets[0])).toBe(true)
  })

  it('closes the connection when its web stream is cancelled before anything came', async () => {
    const { url, sockets } = await listen((_, response) => response.flushHeaders())
    const { body } = await createTransport(words).send(url, { headers: {}, signal: never })
    await webBody(body).cancel()
    expect(await closed(sockets[0])).toBe(true)
  })

  it('pauses the sender while the body is not read, and loses nothing', async () => {
    const bytes = 16 * 1024 * 1024
    const { url, sockets } = await listen((_, response) => response.end('x'.repeat(bytes)))
    const transport = createTransport(words)
    const { body } = await transport.send(url, { headers: {}, signal: never })
    const [socket] = sockets
    // Another exchange takes its time, and the rest of the first answer stays where it is.
    await boundedText((await transport.send(url, { headers: {}, signal: never })).body, bytes)
    expect(socket?.writableLength).toBeGreaterThan(bytes / 2)
    expect(await boundedText(body, bytes)).toHaveLength(bytes)
  })

  it('leaves the connection open when it was read to its end', async () => {
    const { url, sockets } = await listen((_, response) => response.end('all'))
    const transport = createTransport(words)
    for (const _ of [1, 2, 3]) {
      const { body } = await transport.send(url, { headers: {}, signal: never })
      expect(await boundedText(body, 100)).toBe('all')
      await new Promise(setImmediate)
    }
    expect(sockets).toHaveLength(1)
  })

  it('fails with the reason of the signal, behind what had come', async () => {
    const { url, sockets } = await listen((_, response) => response.write('first'))
    const caller = new AbortController()
    const { body } = await createTransport(words).send(url, { headers: {}, signal: caller.signal })
    expect(await body.next()).toHaveLength(1)
    const next = body.next()
    caller.abort(new Error('no longer wanted'))
    await expect(next).rejects.toThrow('no longer wanted')
    expect(await closed(sockets[0])).toBe(true)
  })
})

async function listen(listener: RequestListener): Promise<{ url: string; sockets: Socket[] }> {
  const sockets: Socket[] = []
  const server = createServer(listener).on('connection', (socket) => sockets.push(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets }
}

async function closed(socket: Socket | undefined): Promise<boolean | undefined> {
  if (socket?.closed === false) await once(socket, 'close')
  return socket?.closed
}
