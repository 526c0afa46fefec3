import type { CallbackRetryOptions } from '../delivery/callback-delivery.ts'
import {
  createServerShell,
  type ServerShell,
  type ServerShellOptions,
} from '../http/server-shell.ts'
import { rolloutRoutes, type RolloutProtocolOptions } from './rollout-routes.ts'

/** Options of {@link createRolloutServer}. */
export interface RolloutServerOptions extends ServerShellOptions, RolloutProtocolOptions {
  /** How long and how often a callback is tried. */
  callbackRetry?: CallbackRetryOptions | undefined
}

/** A rollout server without a port: give it to {@link serve}, or its `fetch` to another host. */
export interface RolloutServer extends ServerShell {}

/**
 * Puts HTTP in front of a backend. Whoever makes a server closes it.
 *
 * @throws OsmosisError with code `invalid_config` for a key that nobody can present, a limit that is
 * not a number of at least 0, or times of leases that do not fit together
 */
export function createRolloutServer(options: RolloutServerOptions): RolloutServer {
  const { backend } = options
  return createServerShell({ ...options, egress: backend.egress }, (services) => ({
    title: 'Osmosis rollout server',
    unauthorized: 'Unauthorized',
    ...rolloutRoutes(options, services),
    endWork: () => backend.shutdown(),
  }))
}
