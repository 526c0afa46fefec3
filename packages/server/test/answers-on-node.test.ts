import { once } from 'node:events'
import { connect } from 'node:net'

import { createRolloutServer, serve, type RolloutServer } from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it } from 'vitest'

import { AskOnce } from './running-server.ts'

const maxBodyBytes = 200

function createServer(): RolloutServer {
  return createRolloutServer({
    backend: new LocalBackend({ workflow: AskOnce }),
    logger: false,
    apiKey: 'sesame',
    maxBodyBytes,
  })
}

const authorization = 'Bearer sesame'

const requests: [path: string, init: RequestInit][] = [
  ['/health', {}],
  ['/health', { method: 'HEAD' }],
  ['/health', { method: 'DELETE' }],
  ['/nowhere', { headers: { authorization } }],
  ['/nowhere', {}],
  ['/rollout/x/status', {}],
  ['/rollout/x/status', { headers: { authorization } }],
  ['/rollout/x/status', { method: 'HEAD', headers: { authorization } }],
  ['/rollout/%F0/status', { headers: { authorization } }],
  ['/rollout/x/result', { headers: { authorization } }],
  ['/rollout', { headers: { authorization } }],
  ['/rollout', { method: 'POST', body: '{"é":', headers: { authorization } }],
  ['/rollout', { method: 'POST', body: '{"label":"é"}', headers: { authorization } }],
  ['/rollout', { method: 'POST', body: ' '.repeat(maxBodyBytes + 1), headers: { authorization } }],
  ['/rollout/cancel', { method: 'POST', body: '{"all":true}', headers: { authorization } }],
]

it('gives the same answers over a port of Node.js and to another host', async () => {
  await using server = createServer()
  await using listening = await serve(server, { port: 0, handleSignals: false })
  const shown = async (response: Response): Promise<object> => {
    const { status, headers } = response
    const names = ['content-type', 'allow', 'www-authenticate', 'retry-after']
    return {
      status,
      headers: names.map((name) => headers.get(name)),
      body: await response.text(),
    }
  }
  for (const [path, init] of requests) {
    const elsewhere = await server.fetch(new Request(`http://x${path}`, init))
    const onNode = await fetch(`${listening.url}${path}`, init)
    expect([path, init, await shown(onNode)]).toStrictEqual([path, init, await shown(elsewhere)])
    expect(onNode.headers.get('x-hono-already-sent')).toBeNull()
  }
  const { headers } = await fetch(`${listening.url}/health`)
  expect(headers.get('content-length')).toMatch(/^\d+$/)
  expect(headers.get('transfer-encoding')).toBeNull()
})

it('keeps the connection open after every kind of body, and answers each request once', async () => {
  await using server = createServer()
  await using listening = await serve(server, { port: 0, handleSignals: false })
  const socket = connect(listening.port, '127.0.0.1').setEncoding('utf8')
  let received = ''
  const statuses: string[] = []
  socket.on('data', (text: string) => {
    received += text
    for (const [, status = ''] of text.matchAll(/HTTP\/1\.1 (\d+)/g)) statuses.push(status)
  })
  const answered = async (text: string): Promise<void> => {
    while (!received.includes(text)) await once(socket, 'data')
    received = received.slice(received.indexOf(text) + text.length)
  }
  const head = `host: x\r\nauthorization: ${authorization}\r\n`
  const cancel = `POST /rollout/cancel HTTP/1.1\r\n${head}`
  const body = '{"all":true}'

  socket.write(`${cancel}content-length: ${body.length}\r\n\r\n${body}`)
  await answered('{"dispositions":{}}')
  socket.write(`${cancel}transfer-encoding: chunked\r\n\r\n`)
  for (const byte of body) socket.write(`1\r\n${byte}\r\n`)
  socket.write('0\r\n\r\n')
  await answered('{"dispositions":{}}')
  socket.write(`${cancel}expect: 100-continue\r\ncontent-length: ${body.length}\r\n\r\n`)
  await answered('HTTP/1.1 100 Continue\r\n\r\n')
  socket.write(body)
  await answered('{"dispositions":{}}')
  // The answer comes before the body does, which is read past.
  socket.write(`${cancel}content-length: ${maxBodyBytes + 1}\r\n\r\n`)
  await answered(`{"detail":"request body is larger than ${maxBodyBytes} bytes"}`)
  socket.write(' '.repeat(maxBodyBytes + 1))
  // Two at once, answered in their order.
  const health = `GET /health HTTP/1.1\r\n${head}\r\n`
  socket.write(`HEAD /health HTTP/1.1\r\n${head}\r\n${health}`)
  await answered('HTTP/1.1 200 OK')
  await answered('\r\n\r\nHTTP/1.1 200 OK')
  await answered('{"status":"ok"')
  expect(statuses).toStrictEqual(['200', '200', '100', '200', '413', '200', '200'])
  socket.destroy()
})

it('survives callers that disconnect during their request or its answer', async () => {
  await using server = createServer()
  await using listening = await serve(server, { port: 0, handleSignals: false })
  const head = `host: x\r\nauthorization: ${authorization}\r\n`
  for (const text of [
    `POST /rollout HTTP/1.1\r\n${head}content-length: 100\r\n\r\n{"half":`,
    `POST /rollout HTTP/1.1\r\n${head}transfer-encoding: chunked\r\n\r\n5\r\n{"hal`,
    `GET /metrics HTTP/1.1\r\n${head}\r\n`,
  ]) {
    const socket = connect(listening.port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(text, () => socket.resetAndDestroy())
    await once(socket, 'close')
  }
  expect((await fetch(`${listening.url}/health`)).status).toBe(200)
})
