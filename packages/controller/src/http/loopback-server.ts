import { createServer, type Server } from 'node:http'

import { getRequestListener } from '@hono/node-server'
import { OsmosisError } from '@osmosis/core'

// Thousands of rollouts may connect at the same moment; Node's own default is 511.
const backlog = 4096
// Longer than the pauses between the model calls of a rollout usually are.
const keepAliveTimeout = 75_000
// Enough for acknowledgements: a caller may close as soon as it knows its last rollout's end.
const graceMs = 500

/** An HTTP server that listens. */
export interface LoopbackServer {
  /** Base URL with the port it really has, without a slash at the end. */
  readonly url: string
  /** Stops listening; answers under way get half a second, then every connection is closed. */
  close(): Promise<void>
}

/**
 * Serves `fetch` at an address.
 *
 * @throws OsmosisError with code `port_in_use` when the address is taken
 */
export async function listen(
  fetch: Parameters<typeof getRequestListener>[0],
  { host, port }: { host: string; port: number },
): Promise<LoopbackServer> {
  const listener = getRequestListener(fetch, { overrideGlobalObjects: false })
  const server = createServer({ keepAliveTimeout }, (incoming, outgoing) => {
    listener(incoming, outgoing).catch(() => outgoing.destroy())
  })
  const bound = await bind(server, host, port)
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

async function bind(server: Server, host: string, port: number): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen({ host, port, backlog }, resolve)
  try {
    await promise
  } catch (cause) {
    if (!isAddressInUse(cause)) throw cause
    throw new OsmosisError(
      'port_in_use',
      `${host}:${port} is taken. Choose another port, or 0 for any free one.`,
      { cause },
    )
  } finally {
    server.off('error', reject)
  }
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : port
}

function isAddressInUse(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
}
