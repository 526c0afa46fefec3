import { once } from 'node:events'
import { Agent as HttpAgent, get, type IncomingMessage, type Server } from 'node:http'

import {
  createRolloutServer,
  serve,
  silentLogger,
  type RolloutServer,
  type ServableApp,
} from '@osmosis/server'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import { startServerProcess } from '../../../test/kit/index.ts'
import { AskOnce } from './running-server.ts'
import { startChild } from './start-child.ts'

const quiet = { handleSignals: false } as const

function createServer(apiKey?: string): RolloutServer {
  return createRolloutServer({
    backend: new LocalBackend({ workflow: AskOnce }),
    logger: false,
    apiKey,
  })
}

describe('the fetch handler', () => {
  it('answers without a port, and limits a body without a length', async () => {
    await using server = createRolloutServer({
      backend: new LocalBackend({ workflow: AskOnce }),
      logger: false,
      maxBodyBytes: 10,
    })
    const post = async (body: string): Promise<number> =>
      (await server.fetch(new Request('http://x/rollout', { method: 'POST', body }))).status

    expect((await server.fetch(new Request('http://x/health'))).status).toBe(200)
    expect(await post('{}        ')).toBe(422)
    expect(await post('{}         ')).toBe(413)
  })

  it.each([
    { apiKey: '' },
    { apiKey: 'a b' },
    { apiKey: 'k\n' },
    { apiKey: 'é' },
    { drainSeconds: Number.NaN },
    { maxBodyBytes: -1 },
  ])('is not made with %j', (options) => {
    const backend = new LocalBackend({ workflow: AskOnce })
    expect(() => createRolloutServer({ backend, ...options })).toThrow(
      expect.objectContaining({ code: 'invalid_config' }) as Error,
    )
  })
})

describe('serving', () => {
  it('starts an app before it listens, and opens no port when that fails', async () => {
    const events: string[] = []
    const app = (failure?: Error): ServableApp => ({
      fetch: async () => new Response(String(events.push('request'))),
      requiresKey: false,
      logger: silentLogger,
      start: async () => {
        events.push('start')
        if (failure) throw failure
      },
      drain: async () => void events.push('drain'),
    })
    const listening = await serve(app(), { port: 0, ...quiet })
    await fetch(listening.url)
    await listening.close()

    expect(events).toStrictEqual(['start', 'request', 'drain'])
    await expect(serve(app(new Error('no database')), { port: 0, ...quiet })).rejects.toThrow(
      'no database',
    )
  })

  it('listens on a free port of this machine and returns its URL', async () => {
    await using listening = await serve(createServer(), { port: 0, ...quiet })

    expect(listening.url).toBe(`http://127.0.0.1:${listening.port}`)
    expect((await fetch(`${listening.url}/health`)).status).toBe(200)
  })

  it('fails with an explanation when the port is in use', async () => {
    await using first = await serve(createServer(), { port: 0, ...quiet })

    await expect(serve(createServer(), { port: first.port, ...quiet })).rejects.toMatchObject({
      code: 'port_in_use',
      message: `Port ${first.port} of 127.0.0.1 is used by another program. Stop it, or choose another port; 0 picks a free one.`,
    })
  })

  it.each([
    // No machine has this address.
    { host: '192.0.2.1', port: 0, why: 'address not available' },
    { host: '127.0.0.1', port: 70_000, why: '65536' },
  ])('explains why it cannot listen on port $port of $host', async ({ host, port, why }) => {
    const serving = serve(createServer(), { host, port, allowUnauthenticated: true, ...quiet })
    await expect(serving).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringMatching(
        `^Port ${port} of ${host} cannot be opened: .*${why}`,
      ) as string,
    })
  })

  it('refuses an address that others can reach without a key or an explicit option', async () => {
    const open = { port: 0, host: '0.0.0.0', ...quiet }

    await expect(serve(createServer(), open)).rejects.toMatchObject({ code: 'invalid_config' })
    await using withKey = await serve(createServer('server-key'), open)
    await using allowed = await serve(createServer(), { ...open, allowUnauthenticated: true })
    expect([withKey.port, allowed.port]).toStrictEqual([expect.any(Number), expect.any(Number)])
  })

  it.each(['localhost', '::1', '127.0.0.2'])(
    'accepts %s as an address of this machine',
    async (host) => {
      await using listening = await serve(createServer(), { port: 0, host, ...quiet })

      expect(listening.url).toMatch(/^http:\/\/(?:127\.0\.0\.\d|\[::1\]):\d+$/)
    },
  )

  it('closes quickly although clients keep a connection whose answer came while closing', async () => {
    const answer = Promise.withResolvers<Response>()
    const requested = Promise.withResolvers<void>()
    const listening = await serve(
      {
        requiresKey: false,
        logger: silentLogger,
        drain: () => Promise.resolve(),
        fetch: () => {
          requested.resolve()
          return answer.promise
        },
      },
      { port: 0, ...quiet },
    )
    const agent = new HttpAgent({ keepAlive: true })
    const response = once(get(listening.url, { agent }), 'response')
    await requested.promise
    const closed = listening.close()
    const start = performance.now()
    setTimeout(() => answer.resolve(new Response('late')), 20)

    const [message] = (await response) as [NodeJS.ReadableStream]
    message.resume()
    await closed
    agent.destroy()
    // Node.js itself would wait for 5 s.
    expect(performance.now() - start).toBeLessThan(4900)
  })

  it('closes its port even if onShutdown of the app throws', async () => {
    const app = createRolloutServer({
      backend: new LocalBackend({ workflow: AskOnce }),
      logger: false,
      onShutdown: () => {
        throw new Error('the database has gone')
      },
    })
    const listening = await serve(app, { port: 0, ...quiet })

    await expect(listening.close()).rejects.toThrow('the database has gone')
    await expect(fetch(`${listening.url}/health`)).rejects.toThrow('fetch failed')
    await listening.closed
    await expect(listening.close()).rejects.toThrow('the database has gone')
  })

  it('closes although its listening socket reports an error meanwhile', async () => {
    const answer = Promise.withResolvers<Response>()
    const asked = Promise.withResolvers<Server>()
    const app: ServableApp = {
      fetch: async (_, host) => {
        const { socket } = (host as { incoming: IncomingMessage }).incoming
        asked.resolve((socket as unknown as { server: Server }).server)
        return answer.promise
      },
      requiresKey: false,
      logger: silentLogger,
      drain: async () => {},
    }
    const listening = await serve(app, { port: 0, ...quiet })
    const asking = fetch(listening.url)
    const server = await asked.promise
    const closing = listening.close()
    await expect.poll(() => server.listening).toBe(false)
    server.emit('error', new Error('accept EMFILE'))
    answer.resolve(new Response('yes'))
    expect(await (await asking).text()).toBe('yes')
    await closing
  })

  it('closes when its signal is aborted', async () => {
    const controller = new AbortController()
    const listening = await serve(createServer(), {
      port: 0,
      signal: controller.signal,
      ...quiet,
    })
    controller.abort()
    await listening.closed

    await expect(fetch(`${listening.url}/health`)).rejects.toThrow('fetch failed')
  })

  it.each(['signal', 'lost'] as const)(
    'closes when its %s is aborted while it starts',
    async (which) => {
      const aborts = new AbortController()
      const app: ServableApp = {
        fetch: async () => new Response(),
        requiresKey: false,
        logger: silentLogger,
        start: async () => aborts.abort(),
        drain: async () => undefined,
        ...(which === 'lost' && { lost: aborts.signal }),
      }
      const signal = which === 'signal' ? aborts.signal : undefined
      const listening = await serve(app, { port: 0, signal, ...quiet })
      await listening.closed

      await expect(fetch(listening.url)).rejects.toThrow('fetch failed')
    },
  )

  it('does not start when its signal is aborted already', async () => {
    await expect(
      serve(createServer(), { port: 0, signal: AbortSignal.abort(), ...quiet }),
    ).rejects.toMatchObject({ name: 'AbortError' })
  })

  it('leaves the Request and Response of the process alone', async () => {
    const before = [globalThis.Request, globalThis.Response]
    await using _ = await serve(createServer(), { port: 0, ...quiet })

    expect([globalThis.Request, globalThis.Response]).toStrictEqual(before)
  })
})

describe('a server that owns its process', () => {
  it('finishes running rollouts on SIGTERM, and exits with 0', async () => {
    await using child = await startChild()
    const { controller } = child
    let answerPolicy = (): void => undefined
    controller.answers['completion'] = [
      (response) => {
        answerPolicy = () => void response.end()
      },
    ]
    await child.post()
    await controller.bodies(1)
    child.kill('SIGTERM')
    await child.logged('draining: no new rollouts are admitted')
    answerPolicy()

    expect(await child.exit).toStrictEqual([0, null])
    expect(await controller.bodies()).toMatchObject([{ status: 'success' }, { status: 'success' }])
  })

  it(
    'fails rollouts that outlast the drain, and exits although user code left a timer',
    { tags: 'slow' },
    async () => {
      await using child = await startChild({ drainSeconds: 0.1 })
      await child.post({ metadata: { never: true } })
      child.kill('SIGINT')

      expect(await child.exit).toStrictEqual([0, null])
      expect(await child.controller.bodies()).toMatchObject([
        { status: 'failure', err_message: 'rollout server shut down' },
        { status: 'failure', err_message: 'rollout server shut down' },
      ])
    },
  )

  it('exits with 1 when its app is lost while it starts', async () => {
    const child = await startServerProcess(new URL('./lost-process.ts', import.meta.url))

    expect(await child.exit).toStrictEqual([1, null])
  })

  it('ends at once on a second signal', async () => {
    await using child = await startChild()
    await child.post({ metadata: { never: true } })
    child.kill('SIGTERM')
    await child.logged('draining: no new rollouts are admitted')
    child.kill('SIGTERM')

    expect(await child.exit).toStrictEqual([143, null])
  })
})
