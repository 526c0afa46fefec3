import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

import { createApp } from '@osmosis/agent-loop'
import { AgentWorkflow } from '@osmosis/core'
import { createRolloutServer, serve, type ListeningServer, type ServableApp } from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'
import { afterAll, describe, expect, it } from 'vitest'

import { post, statusAndBody } from '../../../test/kit/index.ts'
import { loopOf } from './running-app.ts'

/** Options that both servers have. */
interface SharedOptions {
  apiKey?: string
  maxBodyBytes?: number
  onStartup?: () => void
  onShutdown?: () => void
}

/** Acknowledges every result. */
const receiver = createServer((incoming, outgoing) => {
  incoming.resume().on('end', () => outgoing.end('{}'))
}).listen(0, '127.0.0.1')
await once(receiver, 'listening')
const receiverUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
afterAll(() => void receiver.close())

class Nothing extends AgentWorkflow {
  async run(): Promise<void> {}
}

interface Served extends AsyncDisposable {
  readonly url: string
  readonly app: ServableApp
}

async function served(app: ServableApp): Promise<Served> {
  const listening: ListeningServer = await serve(app, { port: 0, handleSignals: false })
  return {
    url: listening.url,
    app,
    [Symbol.asyncDispose]: () => listening.close({ waitSeconds: 0 }),
  }
}

const rolloutServer = {
  name: 'the rollout server',
  route: '/rollout',
  start: (options: SharedOptions) =>
    served(
      createRolloutServer({
        backend: new LocalBackend({ workflow: Nothing }),
        trajectories: false,
        logger: false,
        ...options,
      }),
    ),
  body: {
    rollout_id: 'r1',
    initial_messages: [],
    chat_completions_url: `${receiverUrl}/v1`,
    completion_callback_url: `${receiverUrl}/done`,
  },
  list: 'initial_messages',
}

const agentLoop = {
  name: 'the server of an agent loop',
  route: '/v1/rollout/init',
  start: (options: SharedOptions) =>
    served(
      createApp(
        loopOf((ctx) => ctx.complete([])),
        { logger: false, ...options },
      ),
    ),
  body: {
    rollout_id: 'r1',
    server_url: receiverUrl,
    messages: [],
    completion_params: {},
  },
  list: 'messages',
}

// Both protocols use the same shell, so each of its rules holds for both.
describe.each([rolloutServer, agentLoop])('$name', ({ route, start, body, list }) => {
  const accepted = 202
  const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` })
  const problem = (type: string, msg: string, ...loc: unknown[]): object => ({
    status: 422,
    body: { detail: [{ type, loc: ['body', ...loc], msg }] },
  })

  it.each(['undefined', 'null', 'k-123456'])(
    'refuses a request without a header when the key is %j',
    async (apiKey) => {
      await using server = await start({ apiKey })
      const status = async (headers?: Record<string, string>): Promise<number> =>
        (await post(server.url + route, body, headers)).status

      expect(await status()).toBe(401)
      expect(await status({ authorization: '' })).toBe(401)
      expect(await status({ authorization: 'Bearer ' })).toBe(401)
      expect(await status(bearer(`${apiKey}x`))).toBe(401)
      expect(await status(bearer(apiKey))).toBe(accepted)
    },
  )

  it.each(['', 'two words', 'line\nbreak', 'schlüssel'])(
    'refuses the key %j, which cannot be sent in a header',
    async (apiKey) => {
      await expect(async () => start({ apiKey })).rejects.toMatchObject({ code: 'invalid_config' })
    },
  )

  it('requires the key before it reads anything, on every route except health', async () => {
    await using server = await start({ apiKey: 'k-123456', maxBodyBytes: 4 })
    const status = async (path: string, init?: RequestInit): Promise<number> =>
      (await fetch(server.url + path, init)).status

    expect(await status(route, { method: 'POST', body: 'much too large' })).toBe(401)
    expect(await status('/openapi.json')).toBe(401)
    expect(await status('/nowhere')).toBe(401)
    expect(await status('/health')).toBe(200)
  })

  it('refuses a body that is larger than the limit, with and without content-length', async () => {
    const tooLarge = { status: 413, body: { detail: 'request body is larger than 1024 bytes' } }
    await using server = await start({ maxBodyBytes: 1024 })
    const large = JSON.stringify({ ...body, filler: 'x'.repeat(1024) })

    expect(await statusAndBody(await post(server.url + route, large))).toStrictEqual(tooLarge)
    expect(await postInChunks(server.url + route, large)).toStrictEqual(tooLarge)
    expect((await post(server.url + route, body)).status).toBe(accepted)
  })

  it('refuses a body that is not JSON, and one that is not UTF-8, with and without content-length', async () => {
    await using server = await start({})
    const url = server.url + route
    const broken = Buffer.concat([
      Buffer.from(JSON.stringify({ ...body, rollout_id: 'r-' }).replace('r-"', 'r-')),
      Buffer.from([0xff]),
      Buffer.from('"}'),
    ])

    const notJson = problem('json_invalid', 'JSON decode error')
    expect(await statusAndBody(await post(url, '{"rollout_id": '))).toStrictEqual(notJson)
    const notUtf8 = problem('json_invalid', 'body is not UTF-8')
    expect(await statusAndBody(await fetch(url, { method: 'POST', body: broken }))).toStrictEqual(
      notUtf8,
    )
    expect(await postInChunks(url, broken)).toStrictEqual(notUtf8)
  })

  it('names the problems of a body, one per list, without repeating any of it', async () => {
    await using server = await start({})
    const { rollout_id: _, ...rest } = body
    const answer = await statusAndBody(
      await post(server.url + route, { ...rest, rollout_id: 5, [list]: [{}, 'secret', 'secret'] }),
    )

    expect(answer).toStrictEqual({
      status: 422,
      body: {
        detail: expect.arrayContaining([
          { type: 'type_error', loc: ['body', 'rollout_id'], msg: expect.any(String) },
          { type: 'type_error', loc: ['body', list, 1], msg: expect.any(String) },
        ]),
      },
    })
    expect((answer.body as { detail: unknown[] }).detail).toHaveLength(2)
    expect(JSON.stringify(answer)).not.toContain('secret')
  })

  it('answers unknown routes and other methods as JSON', async () => {
    await using server = await start({})
    expect(await statusAndBody(await fetch(`${server.url}/nowhere`))).toStrictEqual({
      status: 404,
      body: { detail: 'Not Found' },
    })
    const other = await fetch(server.url + route)
    expect(other.headers.get('allow')).toBe('POST')
    expect(await statusAndBody(other)).toStrictEqual({
      status: 405,
      body: { detail: 'Method Not Allowed' },
    })
  })

  it('refuses rollouts while it ends, and still answers the health check', async () => {
    await using server = await start({})
    await server.app.drain()
    const answer = await post(server.url + route, body)

    expect(answer.headers.get('retry-after')).toBe('5')
    expect(await statusAndBody(answer)).toStrictEqual({
      status: 503,
      body: { detail: 'rollout server is shutting down' },
    })
    expect((await fetch(`${server.url}/health`)).status).toBe(200)
  })

  it('describes the statuses that the shell adds in its OpenAPI document', async () => {
    await using server = await start({})
    const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { responses: object }>>
    }
    expect(document.paths[route]?.['post']?.responses).toMatchObject({
      401: { description: 'The key is missing or wrong' },
      413: { description: 'The body is too large' },
      422: { description: 'Not JSON in UTF-8, or not valid for the schema' },
    })
  })

  it('runs the hooks of its user once, around everything else', async () => {
    const calls: string[] = []
    const server = await start({
      onStartup: () => void calls.push('startup'),
      onShutdown: () => void calls.push('shutdown'),
    })
    await post(server.url + route, body)
    await Promise.all([server.app.drain(), server.app.drain()])
    await server[Symbol.asyncDispose]()

    expect(calls).toStrictEqual(['startup', 'shutdown'])
  })
})

/** Without `content-length`, as a caller that does not know its body's length sends it. */
async function postInChunks(url: string, body: string | Buffer): Promise<object> {
  const { promise, resolve, reject } = Promise.withResolvers<object>()
  const outgoing = request(url, { method: 'POST' }, (answer) => {
    text(answer).then(
      (said) => resolve({ status: answer.statusCode, body: JSON.parse(said) as unknown }),
      reject,
    )
  })
  // The server may close the connection of a refused body.
  outgoing.on('error', reject)
  outgoing.write(body.slice(0, 10))
  outgoing.end(body.slice(10))
  return promise
}
