import type { Server, ServerOptions } from 'node:http'

import { OsmosisError } from '@osmosis/core'

import type { Logger } from '../logging/logger.ts'

/** What one client may cost a server. */
export interface HttpLimits {
  /** For the headers of a request to arrive. Default 30; never more than `requestSeconds`. */
  headersSeconds?: number | undefined
  /** For a whole request to arrive, body included. Default 120. */
  requestSeconds?: number | undefined
  /** For a connection without a request. Default 75: more than load balancers keep theirs (60). */
  keepAliveSeconds?: number | undefined
  /**
   * Connections at the same time; more are closed at once. Default 10 000, which is what callers need
   * that wait for 10 000 results.
   */
  maxConnections?: number | undefined
}

const defaults = {
  headersSeconds: 30,
  requestSeconds: 120,
  keepAliveSeconds: 75,
  maxConnections: 10_000,
}
/** A connection in which nothing moves is probed after this time. */
const probeAfterMs = 60_000
/** How often a refused connection is logged. */
const warnEveryMs = 60_000

/**
 * What `createServer` is made with.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function timesOf(limits: HttpLimits = {}): ServerOptions {
  const { headersSeconds, requestSeconds, keepAliveSeconds } = checked(limits)
  // Node.js refuses more time for a part of a request than for the whole.
  const shortest = Math.min(headersSeconds, requestSeconds)
  return {
    headersTimeout: milliseconds(shortest),
    requestTimeout: milliseconds(requestSeconds),
    keepAliveTimeout: milliseconds(keepAliveSeconds),
    // An answer may take an hour: routers must not forget its connection, and a caller that is gone
    // without a word is noticed.
    keepAlive: true,
    keepAliveInitialDelay: probeAfterMs,
    // Late requests are looked for this often.
    connectionsCheckingInterval: milliseconds(Math.min(5, shortest / 2)),
  }
}

/** Whole ones, which Node.js insists on. */
function milliseconds(seconds: number): number {
  return Math.ceil(seconds * 1000)
}

/** Bounds the connections of a server that does not listen yet. */
export function boundConnections(http: Server, limits: HttpLimits = {}, logger: Logger): void {
  const { maxConnections } = checked(limits)
  http.maxConnections = maxConnections
  let warned = Number.NEGATIVE_INFINITY
  http.on('drop', () => {
    if (performance.now() - warned < warnEveryMs) return
    warned = performance.now()
    logger.warn({ max_connections: maxConnections }, 'connections refused: there are too many')
  })
}

function checked(limits: HttpLimits): typeof defaults {
  const given = Object.entries(limits).filter(([, value]) => value !== undefined)
  for (const [name, value] of given) {
    if (typeof value === 'number' && value > 0 && Number.isFinite(value)) continue
    throw new OsmosisError(
      'invalid_config',
      `limits.${name} must be a number above 0, got ${String(value)}. Leave it out for the default.`,
    )
  }
  return { ...defaults, ...Object.fromEntries(given) }
}
