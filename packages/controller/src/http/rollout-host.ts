import { randomBytes } from 'node:crypto'

import type { HttpBindings } from '@hono/node-server'
import { errorMessage, OsmosisError } from '@osmosis/core'
import { Hono } from 'hono'

import { listen } from './loopback-server.ts'
import { Refusal } from './request-body.ts'
import { ServerClient } from './server-client.ts'

/** Routes that know the connection they are asked over. */
export type Routes = Hono<{ Bindings: HttpBindings }>

/** What a controller and a trainer both are: a server that listens, and rollouts that run. */
export interface RolloutHost {
  /** Base URL, without a slash at the end. */
  readonly url: string
  readonly client: ServerClient
  /** Does work that ends when `signal` aborts or the host is closed. */
  run<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T>
  /** Ends what runs, then stops listening. Safe to call again. */
  close(): Promise<void>
}

/**
 * Serves routes, a health check beside them, at an address of this machine.
 *
 * @param options.name - what is closed, for the error of rollouts that were running: `controller`
 * @throws OsmosisError with code `port_in_use` when the address is taken
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
    // Their servers are asked to stop, and commits under way are brought to an end.
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
 * The key that callers of a host have to present: the given one, or a random one.
 *
 * @throws OsmosisError with code `invalid_config` for a key that no header can carry; it is not
 * repeated
 */
export function ownKey(name: string, given: string | undefined): string {
  if (given === undefined) return randomBytes(32).toString('base64url')
  if (/^[\x21-\x7e]+$/.test(given)) return given
  const fault =
    given.trim() === '' ? 'must not be empty' : 'must be visible ASCII characters without spaces'
  throw new OsmosisError('invalid_config', `${name} ${fault}. Omit it for a random one.`)
}
