import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'

import { OsmosisError } from '@osmosis/core'
import { createTransport, type HttpRequest, type TransportOptions } from '@osmosis/core/http'
import { Agent } from 'undici'
import { describe, expect, it, onTestFinished } from 'vitest'

import { sendJson, startPolicyEndpoint } from '../../../../test/kit/index.ts'

const post: HttpRequest = { headers: {}, body: '{}', signal: new AbortController().signal }
const words: TransportOptions = {
  name: 'platform',
  codes: { unreachable: 'platform_unreachable', refused: 'protocol_error' },
}

describe('a transport', () => {
  it('reuses the connection for the next request unless it has to be closed', async () => {
    const server = await startPolicyEndpoint((response) => sendJson(response, 200, {}))
    const transport = createTransport(words)
    for (const closeConnection of [false, true]) {
      const { body } = await transport.post(server.url, { ...post, closeConnection })
      await text(body)
    }
    await transport.close()
    expect(server.requests.map(({ headers }) => headers.connection)).toStrictEqual([
      'keep-alive',
      'close',
    ])
  })

  it('speaks of errors in the words and codes of its caller', async () => {
    const server = await startPolicyEndpoint((response) => {
      response.writeHead(404, { 'retry-after-ms': '20', 'x-should-retry': 'true' })
      response.end('{"detail":"no such rollout"}')
    })
    const transport = createTransport({ ...words, advise: () => 'Look at server_url.' })
    const refused: unknown = await transport
      .post(server.url, post)
      .catch((thrown: unknown) => thrown)
    expect(refused).toStrictEqual(
      new OsmosisError(
        'protocol_error',
        `The platform answered 404: no such rollout. Look at server_url. (${server.url})`,
        { status: 404, retryAfterMs: 20, shouldRetry: true, endpointMessage: 'no such rollout' },
      ),
    )
    await expect(transport.post('http://127.0.0.1:1/', post)).rejects.toMatchObject({
      code: 'platform_unreachable',
      message:
        'No answer from the platform: connect ECONNREFUSED 127.0.0.1:1 (http://127.0.0.1:1/)',
    })
    await expect(transport.post('http://user:pass#@platform/', post)).rejects.toMatchObject({
      message: 'No answer from the platform: Invalid URL (platform/)',
    })
  })

  it('sends a GET request without a body', async () => {
    const methods: unknown[] = []
    const server = createServer((request, response) => {
      methods.push([request.method, request.headers['content-length']])
      response.end()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => {
      server.close()
      server.closeAllConnections()
    })
    const { port } = server.address() as AddressInfo
    const url = `http://127.0.0.1:${port}`
    const transport = createTransport(words)
    for (const body of [undefined, '{}']) {
      const answer = await transport.send(url, { headers: {}, body, signal: post.signal })
      await text(answer.body)
    }
    expect(methods).toStrictEqual([
      ['GET', undefined],
      ['POST', '2'],
    ])
  })

  it('gives an answer of any status to those who pass it on', async () => {
    const server = await startPolicyEndpoint((response) => sendJson(response, 503, { busy: true }))
    const answer = await createTransport(words).send(server.url, post)
    expect(answer).toMatchObject({ status: 503, contentType: 'application/json' })
    expect(await text(answer.body)).toBe('{"busy":true}')
  })

  it('knows which of its errors may pass', async () => {
    const answer = { status: 409, headers: {} }
    const server = await startPolicyEndpoint((response) => {
      response.writeHead(answer.status, answer.headers).end()
    })
    const transport = createTransport(words)
    const passes = async (url: string, request: HttpRequest = post): Promise<boolean> => {
      const error: unknown = await transport.post(url, request).catch((thrown: unknown) => thrown)
      return transport.isTransient(error)
    }
    const ofStatus = async (status: number, headers: object = {}): Promise<boolean> => {
      Object.assign(answer, { status, headers })
      return passes(server.url)
    }
    expect(await ofStatus(409)).toBe(false)
    expect(await ofStatus(429)).toBe(true)
    expect(await ofStatus(503)).toBe(true)
    expect(await ofStatus(503, { 'x-should-retry': 'false' })).toBe(false)
    expect(await ofStatus(409, { 'x-should-retry': 'true' })).toBe(true)
    expect(await passes('http://127.0.0.1:1/')).toBe(true)
    expect(await passes(server.url, { ...post, headers: { a: 'line\nbreak' } })).toBe(false)
    expect(transport.isTransient(new Error('something else'))).toBe(false)
  })

  it('breaks off what is in progress when it is closed, and asks nothing afterwards', async () => {
    const arrived = Promise.withResolvers<void>()
    const server = await startPolicyEndpoint(() => arrived.resolve())
    const transport = createTransport(words)
    const answer = transport.post(server.url, post).catch((thrown: unknown) => thrown)
    await arrived.promise
    await transport.close()
    await transport.close()
    expect(await answer).toMatchObject({ code: 'platform_unreachable' })
    expect(await server.requests[0]?.closed).toBe(true)
    await expect(transport.post(server.url, post)).rejects.toThrow('the connections were closed')
    expect(server.requests).toHaveLength(1)
  })

  it('answers again when its process had no free file descriptor at the first request', async () => {
    const file = path.join(import.meta.dirname, 'call-without-files.ts')
    const limited = ['-c', 'ulimit -n 64; exec "$0" "$1"', process.execPath, file]
    const { stdout } = await promisify(execFile)('sh', limited)
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^No answer from the policy endpoint: .*too many open files/),
      'yes',
      '',
    ])
  })

  it('uses the dispatcher it is given, and leaves it open', async () => {
    const server = await startPolicyEndpoint((response) => sendJson(response, 200, {}))
    const dispatcher = new Agent({ connections: 1 })
    onTestFinished(async () => dispatcher.destroy())
    const opened: string[] = []
    dispatcher.on('connect', ({ origin }) => opened.push(origin))
    const transport = createTransport({ ...words, dispatcher })
    await text((await transport.post(server.url, post)).body)
    expect(opened).toEqual([new URL(server.url).origin])
    await transport.close()
    expect(dispatcher.destroyed).toBe(false)
  })
})
