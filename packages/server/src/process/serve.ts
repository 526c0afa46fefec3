import { addAbortListener } from 'node:events'
import { createServer, type Server, type ServerOptions } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

import { getRequestListener } from '@hono/node-server'
import { OsmosisError } from '@osmosis/core'
import { isLoopback } from '@osmosis/core/http'
import { listenOn } from '@osmosis/protocol/http'

import { HttpRefusal, toResponse } from '../http/server-route.ts'
import type { ServableApp } from '../http/server-shell.ts'
import { ConnectionPlaces } from './connection-places.ts'
import { ownProcess } from './process-owner.ts'

/** What clients may use of a server: the time for each request, and how many may be connected. */
export interface HttpLimits {
  /** For the headers of a request to arrive. Default 30; never more than `requestSeconds`. */
  headersSeconds?: number | undefined
  /** For a whole request to arrive, body included. Default 120. */
  requestSeconds?: number | undefined
  /** For a connection without a request. Default 75: more than load balancers keep theirs (60). */
  keepAliveSeconds?: number | undefined
  /**
   * Maximum concurrent connections of all clients together. A few more may ask for `/health`; other requests on
   * them get 503, and the rest is closed at once. Default 10 000, enough for callers that wait for 10 000 results.
   */
  maxConnections?: number | undefined
}

const defaults = {
  headersSeconds: 30,
  requestSeconds: 120,
  keepAliveSeconds: 75,
  maxConnections: 10_000,
}
/** An idle connection is probed after this time. */
const probeAfterMs = 60_000

/**
 * The timeouts that `createServer` gets.
 *
 * @throws OsmosisError with code `invalid_config`
 */
function timesOf(limits: HttpLimits = {}): ServerOptions {
  const { headersSeconds, requestSeconds, keepAliveSeconds } = checked(limits)
  // Node.js rejects a longer time for the headers than for the whole request.
  const shortest = Math.min(headersSeconds, requestSeconds)
  return {
    headersTimeout: milliseconds(shortest),
    requestTimeout: milliseconds(requestSeconds),
    keepAliveTimeout: milliseconds(keepAliveSeconds),
    // An answer may take an hour: routers must not drop its connection, and the server must notice a
    // caller that disappeared.
    keepAlive: true,
    keepAliveInitialDelay: probeAfterMs,
    // How often Node.js looks for late requests.
    connectionsCheckingInterval: milliseconds(Math.min(5, shortest / 2)),
  }
}

/** Rounded up: Node.js requires whole milliseconds. */
function milliseconds(seconds: number): number {
  return Math.ceil(seconds * 1000)
}

function checked(limits: HttpLimits = {}): typeof defaults {
  const given = Object.entries(limits).filter(([, value]) => value !== undefined)
  for (const [name, value] of given) {
    if (typeof value === 'number' && value > 0 && Number.isFinite(value)) continue
    throw new OsmosisError(
      'invalid_config',
      `limits.${name} must be a number above 0, got ${String(value)}. Omit it for the default.`,
    )
  }
  return { ...defaults, ...Object.fromEntries(given) }
}

/** Options of {@link serve}. */
export interface ServeOptions {
  /** 0 picks a free one; default 8000. */
  port?: number | undefined
  /** Address to listen on; default `127.0.0.1`. */
  host?: string | undefined
  /** Closes the server when aborted. */
  signal?: AbortSignal | undefined
  /**
   * Makes the server the owner of its process (default true): SIGTERM and SIGINT drain and close
   * it, a second one ends the process at once. SIGHUP, which a closed terminal sends, also drains and
   * closes it, unless the process has another listener for it. User code that
   * calls `process.exit`, throws from a callback or leaves a rejection unhandled fails its own
   * rollout; an error that belongs to no known rollout fails all running ones and ends the process with 1.
   */
  handleSignals?: boolean | undefined
  /** What clients may use; the defaults suit servers that strangers can reach. */
  limits?: HttpLimits | undefined
  /** Lets a server without a key listen on an address that other machines can reach. */
  allowUnauthenticated?: boolean | undefined
}

/** A server that listens. */
export interface ListeningServer extends AsyncDisposable {
  /** Where it listens, without a slash at the end. */
  readonly url: string
  readonly port: number
  /** Resolves when it has been closed, by a call or by a signal. */
  readonly closed: Promise<void>
  /**
   * Drains the rollout server, then closes the port. A later call waits for the same end.
   *
   * @param options - `waitSeconds` overrides the `drainSeconds` of the rollout server
   */
  close(options?: { waitSeconds?: number | undefined }): Promise<void>
}

/** Connections that may wait to be accepted: enough for a burst of a whole batch. */
const backlog = 4096
/** How often idle connections are closed while the server closes. */
const idleCheckMs = 100
/** A client that neither reads nor disconnects delays the end of the process by at most this time. */
const closeMs = 5000

/**
 * Serves HTTP on Node. Resolves when it listens; the caller or a signal closes it. When it rejects,
 * the caller still has to close the app.
 *
 * @throws OsmosisError with code `port_in_use`, or `invalid_config` for an open address without
 * a key, for an address or a port that cannot be opened, and for a limit that is not a number above 0
 */
export async function serve(
  app: ServableApp,
  options: ServeOptions = {},
): Promise<ListeningServer> {
  const { port = 8000, host = '127.0.0.1', signal, handleSignals = true } = options
  signal?.throwIfAborted()
  if (options.allowUnauthenticated !== true) assertGuarded(host, app.requiresKey)
  await app.start?.()
  const http = createHttpServer(app, options.limits)
  const sockets = new Set<Socket>()
  http.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  await listenOn(http, { host, port, backlog })
  const { address, port: boundPort, family } = http.address() as AddressInfo
  const url = `http://${family === 'IPv6' ? `[${address}]` : address}:${boundPort}`

  const closed = Promise.withResolvers<void>()
  const shutDown = async (): Promise<void> => {
    await closeHttpServer(http, sockets)
    abortListener?.[Symbol.dispose]()
    disown?.()
    app.logger.info({ url }, 'closed')
    closed.resolve()
  }
  let closing: Promise<void> | undefined
  const close: ListeningServer['close'] = async ({ waitSeconds } = {}) => {
    try {
      await app.drain({ waitSeconds })
    } finally {
      // Also after a drain that failed, for example in the `onShutdown` of the user: the port would stay open for ever.
      closing ??= shutDown()
      await closing
    }
  }
  const closeSoon = (waitSeconds?: number): void => {
    close({ waitSeconds }).catch((error: unknown) => app.logger.error({ error }, 'closing failed'))
  }
  const disown = handleSignals ? ownProcess(close, app.logger, app.lost) : undefined
  // Both may have been aborted while the port was opened.
  if (app.lost) addAbortListener(app.lost, () => closeSoon(0))
  const abortListener = signal && addAbortListener(signal, () => closeSoon())
  http.on('error', (error) => app.logger.error({ error }, 'connection failed'))
  app.logger.info({ url }, 'listening')
  return { url, port: boundPort, closed: closed.promise, close, [Symbol.asyncDispose]: close }
}

function createHttpServer(app: ServableApp, limits: HttpLimits | undefined): Server {
  const listener = getRequestListener((request, host) => app.fetch(request, host), {
    // User code runs in this process and may rely on the real Request and Response.
    overrideGlobalObjects: false,
    // Probes of load balancers use HTTP/1.0, which needs no Host header.
    hostname: 'localhost',
    errorHandler: () => toResponse(new HttpRefusal(400, 'Bad Request').toAnswer()),
  })
  const places = new ConnectionPlaces(checked(limits).maxConnections, app.logger)
  const http = createServer(timesOf(limits), (incoming, outgoing) => {
    if (places.refuses(incoming, outgoing)) return
    listener(incoming, outgoing).catch((error: unknown) => {
      app.logger.error({ error }, 'request could not be answered')
      outgoing.destroy()
    })
  })
  places.watch(http)
  return http
}

async function closeHttpServer(http: Server, sockets: ReadonlySet<Socket>): Promise<void> {
  // Not `once` of node:events, whose promise an error of the listening socket would reject before anyone waits for it.
  const closed = new Promise<void>((resolve) => {
    http.once('close', () => resolve())
  })
  const late = performance.now() + closeMs
  // Node.js takes a connection for idle, and cuts it off, as soon as it has buffered the whole answer.
  const isSending = (): boolean =>
    performance.now() < late && [...sockets].some(({ writableLength }) => writableLength > 0)
  while (isSending()) await sleep(idleCheckMs)
  http.close()
  // A connection whose answer ends after close() would otherwise stay open for its keep-alive time.
  const idle = setInterval(() => {
    if (!isSending()) http.closeIdleConnections()
  }, idleCheckMs)
  const end = setTimeout(() => http.closeAllConnections(), Math.max(late - performance.now(), 0))
  try {
    await closed
  } finally {
    clearInterval(idle)
    clearTimeout(end)
  }
}

/**
 * @throws OsmosisError with code `invalid_config` when a server without a key would be open to
 * other machines
 */
function assertGuarded(host: string, requiresKey: boolean): void {
  if (requiresKey || isLoopback(host)) return
  throw new OsmosisError(
    'invalid_config',
    `Refusing to listen on ${host} without an API key: anyone who reaches it could start rollouts. Set apiKey (--api-key-file, OSMOSIS_ROLLOUT_SERVER_API_KEY), listen on 127.0.0.1, or pass allowUnauthenticated (--no-auth) if something else protects the server.`,
  )
}
