import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'

import { createTransport, type HttpRequest, type TransportOptions } from '@osmosis/core/http'
import { describe, expect, it, onTestFinished } from 'vitest'

import { countAlive } from '../../../../test/kit/index.ts'

const post: HttpRequest = { headers: {}, body: '{}', signal: new AbortController().signal }
const words: TransportOptions = {
  name: 'policy endpoint',
  codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
}

describe('connections', () => {
  it('are as many as there are requests in progress, and are used again', async () => {
    const peer = await Peer.start()
    const { ask } = asking(words)
    const first = Promise.all([ask(peer.url), ask(peer.url), ask(peer.url)])
    await peer.waiting(3)
    peer.answerAll()
    await first
    expect(peer.sockets.size).toBe(3)

    for (let n = 0; n < 5; n += 1) {
      // A connection serves again one turn after its answer.
      await setImmediate()
      const next = ask(peer.url)
      await peer.waiting(1)
      peer.answerAll()
      await next
    }
    expect(peer.sockets.size).toBe(3)
  })

  it('are opened again where the other side closed them, idle or in an answer', async () => {
    const peer = await Peer.start()
    const { ask } = asking(words)
    const first = ask(peer.url)
    await peer.waiting(1)
    const broken = ask(peer.url)
    peer.answerAll()
    await first
    await peer.waiting(1)
    peer.breakAll()
    await expect(broken).rejects.toMatchObject({ code: 'policy_unreachable' })

    const third = ask(peer.url)
    await peer.waiting(1)
    peer.answerAll()
    await third
    peer.breakAll()
    await peer.empty()
    const fourth = ask(peer.url)
    await peer.waiting(1)
    peer.answerAll()
    await fourth
    expect(peer.paths).toHaveLength(4)
  })

  it('fail when the place cannot be connected to', async () => {
    const { ask } = asking(words)
    const requests = Array.from({ length: 4 }, async () => ask('http://127.0.0.1:1/'))
    for (const request of requests) {
      await expect(request).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
    }
  })

  it('are closed when they have been idle for their time limit', async () => {
    const peer = await Peer.start()
    const { ask } = asking({ ...words, keepAliveMs: 100 })
    const first = ask(peer.url)
    await peer.waiting(1)
    peer.answerAll()
    await first
    await expect(peer.empty()).resolves.toBe(true)
  })

  it('keep nothing of the rollouts that opened them', async () => {
    const peer = await Peer.start()
    const { ask } = asking(words)
    const rollouts = new AsyncLocalStorage<object>()
    const held: WeakRef<object>[] = []
    const asked = Array.from({ length: 20 }, async () => {
      const rollout = { conversation: 'long' }
      held.push(new WeakRef(rollout))
      await rollouts.run(rollout, async () => ask(peer.url))
    })
    await peer.waiting(20)
    peer.answerAll()
    await Promise.all(asked)
    asked.length = 0

    await expect.poll(() => countAlive(held)).toBe(0)
    expect(peer.open).toBe(20)
  })

  it('end with their transport, and so do their requests', async () => {
    const peer = await Peer.start()
    const { ask, close } = asking(words)
    const requests = [ask(peer.url), ask(peer.url)]
    await peer.waiting(1)
    await Promise.all([
      ...requests.map(async (request) =>
        expect(request).rejects.toMatchObject({ code: 'policy_unreachable' }),
      ),
      close(),
    ])
    await peer.empty()
  })
})

function asking(options: TransportOptions) {
  const transport = createTransport(options)
  onTestFinished(async () => transport.close())
  const ask = async (url: string, settings: Partial<HttpRequest> = {}): Promise<string> => {
    const { body } = await transport.post(url, { ...post, ...settings })
    return text(body)
  }
  return { ask, close: async () => transport.close() }
}

/** Answers when the test releases it. */
class Peer {
  /** All there ever were. */
  readonly sockets = new Set<Socket>()
  readonly paths: (string | undefined)[] = []
  url = ''
  /** How many there are. */
  open = 0
  readonly #waiting: [IncomingMessage, ServerResponse][] = []

  static async start(): Promise<Peer> {
    const peer = new Peer()
    const server = createServer((request, response) => {
      peer.paths.push(request.url)
      peer.#waiting.push([request, response])
    })
    server.on('connection', (socket: Socket) => {
      peer.sockets.add(socket)
      peer.open += 1
      socket.on('close', () => (peer.open -= 1))
    })
    // Would set the idle time of connections.
    server.keepAliveTimeout = 0
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    peer.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return peer
  }

  /** Resolves when as many requests have come that were not answered. */
  async waiting(count: number): Promise<void> {
    while (this.#waiting.length < count) await setImmediate()
  }

  /** Resolves with true when no client is connected. */
  async empty(): Promise<boolean> {
    while (this.open > 0) await setImmediate()
    return true
  }

  answerAll(): void {
    for (const [, response] of this.#waiting.splice(0)) response.end('{}')
  }

  breakAll(): void {
    this.#waiting.length = 0
    for (const socket of this.sockets) socket.destroy()
  }
}
