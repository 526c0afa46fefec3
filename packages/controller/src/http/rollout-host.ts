import { randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'

import { type HttpBindings, getRequestListener } from '@hono/node-server'
import { errorMessage, OsmosisError } from '@osmosis/core'
import { listenOn } from '@osmosis/protocol/http'
import { Hono } from 'hono'

import { Refusal } from './request-body.ts'
import { ServerClient } from './server-client.ts'

// Thousands of rollouts may connect at once; Node's default is 511.
const backlog = 4096
// Longer than the usual pause between the model calls of a rollout.
const keepAliveTimeout = 75_000
// Enough for acknowledgements: a caller may close as soon as its last rollout has ended.
const graceMs = 500

/**
 * Serves `fetch` at an address. Closing gives answers in progress half a second, then closes every connection.
 *
 * @throws OsmosisError with code `port_in_use` when the address is taken, `invalid_config` for one that cannot be opened
 */
async function listen(
  fetch: Parameters<typeof getRequestListener>[0],
  { host, port }: { host: string; port: number },
): Promise<{ url: string; close: () => Promise<void> }> {
  const listener = getRequestListener(fetch, { overrideGlobalObjects: false })
  const server = createServer({ keepAliveTimeout }, (incoming, outgoing) => {
    listener(incoming, outgoing).catch(() => outgoing.destroy())
  })
  const bound = await listenOn(server, { host, port, backlog })
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    close: () => stop(server),
  }
}

async function stop(server: Server): Promise<void> {
  const closed = Promise.withResolvers<void>()
  server.close(() => closed.resolve())
  // Node keeps a connection open for reuse even if its answer ends after `close`.
  const idle = setInterval(() => server.closeIdleConnections(), 5)
  const cutoff = setTimeout(() => server.closeAllConnections(), graceMs)
  await closed.promise
  clearInterval(idle)
  clearTimeout(cutoff)
}

/** Routes with access to the connection of a request. */
export type Routes = Hono<{ Bindings: HttpBindings }>

/** The common part of a controller and a trainer: a server that listens, and rollouts that run. */
export interface RolloutHost {
  /** Base URL, without a slash at the end. */
  readonly url: string
  readonly client: ServerClient
  /** Runs work with a signal that aborts with `signal` or when the host is closed. */
  run<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T>
  /** Ends running rollouts, then stops listening. Safe to call again. */
  close(): Promise<void>
}

/**
 * Serves routes and a health check at an address of this machine.
 *
 * @param options.name - the kind of host, for error messages: `controller`
 * @throws OsmosisError with code `port_in_use` when the address is taken, `invalid_config` for one that cannot be opened
 */
export async function openHost(
  routes: Routes,
  options: { name: string; host?: string | undefined; port?: number | undefined },
): Promise<RolloutHost> {
  const app: Routes = new Hono<{ Bindings: HttpBindings }>()
    .get('/health', (c) => c.json({ status: 'ok' }))
    .route('/', routes)
    .notFound((c) => c.json({ detail: 'Not Found' }, 404))
    .onError((error, c) =>
      error instanceof Refusal
        ? c.json(error.body, error.status)
        : c.json({ detail: errorMessage(error) }, 500),
    )
  const { host = '127.0.0.1', port = 0 } = options
  const listening = await listen(app.fetch, { host, port })
  const client = new ServerClient()
  const closed = new AbortController()
  const running = new Set<Promise<unknown>>()
  let closing: Promise<void> | undefined

  async function shutDown(): Promise<void> {
    const message = `The ${options.name} was closed before the rollout ended.`
    closed.abort(new OsmosisError('cancelled', message))
    // Waits for requests to stop at their servers, and for commits in progress.
    await Promise.allSettled(running)
    await listening.close()
    await client.close()
  }

  return {
    url: listening.url,
    client,
    async run(signal, work) {
      const rollout = work(AbortSignal.any([closed.signal, ...(signal ? [signal] : [])]))
      running.add(rollout)
      try {
        return await rollout
      } finally {
        running.delete(rollout)
      }
    },
    close: () => (closing ??= shutDown()),
  }
}

/**
 * The key that callers of a host have to send: the given one, or a random one.
 *
 * @throws OsmosisError with code `invalid_config` for a key that a header cannot carry, without the key
 */
export function ownKey(name: string, given: string | undefined): string {
  if (given === undefined) return randomBytes(32).toString('base64url')
  if (/^[\x21-\x7e]+$/.test(given)) return given
  const fault =
    given.trim() === '' ? 'must not be empty' : 'must be visible ASCII characters without spaces'
  throw new OsmosisError('invalid_config', `${name} ${fault}. Omit it for a random one.`)
}
