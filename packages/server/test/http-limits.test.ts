import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

import { createRolloutServer, serve, type ServeOptions } from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import { recordingLogger, type LogLine } from '../../../test/kit/index.ts'
import { AskOnce } from './running-server.ts'

async function limited(limits: ServeOptions['limits']): Promise<{
  url: string
  open: () => Promise<Socket>
  log: LogLine[]
  [Symbol.asyncDispose]: () => Promise<void>
}> {
  const log: LogLine[] = []
  const backend = new LocalBackend({ workflow: AskOnce })
  const server = createRolloutServer({ backend, logger: recordingLogger(log) })
  const listening = await serve(server, { port: 0, handleSignals: false, limits })
  const sockets: Socket[] = []
  const open = async (): Promise<Socket> => {
    const socket = connect(listening.port, '127.0.0.1')
    sockets.push(socket)
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return socket
  }
  return {
    url: listening.url,
    open,
    log,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await listening.close({ waitSeconds: 0 })
    },
  }
}

/** What was received until the server closed the connection. */
async function untilClosed(socket: Socket): Promise<string> {
  let text = ''
  socket.on('data', (data: Buffer) => (text += data.toString()))
  await once(socket, 'close')
  return text
}

const head = 'POST /rollout HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n'

describe('a server that listens', () => {
  it('answers probes of HTTP/1.0, which have no Host header', async () => {
    await using server = await limited({})
    const socket = await server.open()
    socket.write('GET /health HTTP/1.0\r\n\r\n')
    expect(await untilClosed(socket)).toMatch(/^HTTP\/1\.1 200 OK[^]*"status":"ok"/)
  })

  it('closes a connection with incomplete headers', async () => {
    await using server = await limited({ headersSeconds: 0.2 })
    const socket = await server.open()
    socket.write(head)
    expect(await untilClosed(socket)).toMatch(/^HTTP\/1\.1 408 /)
  })

  it('closes a connection with an incomplete body', async () => {
    await using server = await limited({ headersSeconds: 0.2, requestSeconds: 0.4 })
    const socket = await server.open()
    socket.write(`${head}content-length: 100\r\n\r\n{"rollout_id":`)
    expect(await untilClosed(socket)).toMatch(/^HTTP\/1\.1 408 /)
  })

  it('limits the headers to the time of the whole request if that is shorter', async () => {
    await using server = await limited({ requestSeconds: 0.2005 })
    const socket = await server.open()
    socket.write(head)
    expect(await untilClosed(socket)).toMatch(/^HTTP\/1\.1 408 /)
  })

  it('closes a connection that has been idle for long', async () => {
    await using server = await limited({ keepAliveSeconds: 0.1 })
    const socket = await server.open()
    socket.write('GET /health HTTP/1.1\r\nhost: x\r\n\r\n')
    expect(await untilClosed(socket)).toMatch(/^HTTP\/1\.1 200 OK[^]*"status":"ok"/)
  })

  it('refuses connections beyond its limit, and logs that once', async () => {
    await using server = await limited({ maxConnections: 2 })
    await Promise.all([server.open(), server.open()])
    const refused = await Promise.all([server.open(), server.open()])
    expect(await Promise.all(refused.map(untilClosed))).toEqual(['', ''])
    const lines = server.log.filter(({ message }) => /refused/.test(message))
    expect(lines).toMatchObject([{ level: 'warn', fields: { max_connections: 2 } }])
  })

  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`

  it('answers health checks when its connections are full, and 503 to others', async () => {
    await using server = await limited({ maxConnections: 2 })
    const [first, second] = await Promise.all([server.open(), server.open()])
    for (const path of ['/health', '/health?from=probe', '/health']) {
      const probe = await server.open()
      probe.write(get(path))
      expect(await untilClosed(probe)).toMatch(/^HTTP\/1\.1 200 OK[^]*"status":"ok"/)
    }
    for (const path of ['/metrics', '/healthy', '/rollout/health', '/']) {
      const other = await server.open()
      other.write(get(path))
      expect(await untilClosed(other)).toMatch(/^HTTP\/1\.1 503 [^]*Too many connections are open/)
    }
    // Probes that ask together, while others hold the last places without a request.
    const silent = await Promise.all(Array.from({ length: 10 }, () => server.open()))
    const probes = await Promise.all(Array.from({ length: 4 }, () => server.open()))
    for (const probe of probes) probe.write(get('/health'))
    for (const text of await Promise.all(probes.map(untilClosed))) expect(text).toMatch(/200 OK/)
    expect(await Promise.all(silent.map(untilClosed))).toEqual(silent.map(() => ''))

    // A place that becomes free is one for every request.
    first?.destroy()
    second?.destroy()
    await expect
      .poll(async () => (await fetch(`${server.url}/metrics`).catch(() => undefined))?.status)
      .toBe(200)
  })

  it('refuses invalid limits', async () => {
    await expect(limited({ maxConnections: 0 })).rejects.toMatchObject({ code: 'invalid_config' })
    await expect(limited({ headersSeconds: -1 })).rejects.toMatchObject({ code: 'invalid_config' })
  })
})
