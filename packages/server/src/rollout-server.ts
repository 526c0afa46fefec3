import type { ExecutionBackend } from '@osmosis/protocol'

import type { CallbackRetryOptions } from './delivery/callback-delivery.ts'
import { Admission } from './http/admission.ts'
import {
  createServerShell,
  type ServerProtocol,
  type ServerServices,
  type ServerShell,
  type ServerShellOptions,
} from './http/server-shell.ts'
import type { LeaseOptions } from './leases/lease-registry.ts'
import { showBackend } from './metrics/backend-figures.ts'
import { showLeases } from './metrics/lease-figures.ts'
import { Leases } from './rollout/leases.ts'
import { LocalRollouts } from './rollout/local-rollouts.ts'
import { portRoutes, type PortRouteOptions } from './rollout/ports/port-routes.ts'
import { toState } from './rollout/rollout-callbacks.ts'
import { RolloutRequests } from './rollout/rollout-requests.ts'
import { TrajectoryFiles } from './rollout/trajectory-files.ts'
import type { RunRouteOptions } from './run/run-request.ts'
import { runRoutes, Runs } from './run/run-routes.ts'
import { OwnershipLog, type OwnershipOptions } from './work/ownership-log.ts'

/** Options of the rollout protocol. */
export interface RolloutProtocolOptions extends PortRouteOptions {
  /** Executes the rollouts; the caller creates it, and the server shuts it down when it drains. */
  backend: ExecutionBackend
  /** Where the server reports which rollouts it has; default: nowhere. */
  ownership?: OwnershipOptions | undefined
  /** How results are stored for callers that fetch them. */
  leases?: LeaseOptions | undefined
  /**
   * Whether a trajectory document of each rollout is written below the backend's `artifactRoot`,
   * where it has one; default true.
   */
  trajectories?: boolean | undefined
  /**
   * Whether `POST /run` and `POST /flush` are served as well, for trainers that wait for the answer;
   * default false.
   */
  run?: boolean | RunRouteOptions | undefined
}

/** Options of {@link createRolloutServer}. */
export interface RolloutServerOptions extends ServerShellOptions, RolloutProtocolOptions {
  /** How long and how often a callback is tried. */
  callbackRetry?: CallbackRetryOptions | undefined
}

/** A rollout server without a port: pass it to {@link serve}, or its `fetch` to another host. */
export interface RolloutServer extends ServerShell {}

/**
 * Serves a backend over HTTP. The caller closes the server.
 *
 * @throws OsmosisError with code `invalid_config` for a key that cannot be sent, a limit that is
 * not a number of at least 0, or lease times that contradict each other
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

/** The rollout protocol for a backend of this process. */
function rolloutRoutes(
  options: RolloutProtocolOptions,
  services: ServerServices,
): Pick<ServerProtocol, 'routes' | 'resume'> & Required<Pick<ServerProtocol, 'settle'>> {
  const { backend, trajectories = true, run = false } = options
  const { logger, metrics, delivery, secrets } = services
  const files = new TrajectoryFiles(trajectories ? backend.artifactRoot : undefined, services)
  const leases = new Leases(options.leases, { ...services, backend })
  const { registry } = leases
  showBackend(metrics, backend)
  showLeases(metrics, leases)
  const ownership = options.ownership && new OwnershipLog(options.ownership, logger)
  const admission = new Admission(services, {
    isFull: () => !backend.hasCapacity(),
    fullStatus: 429,
    otherBody: 'refuse',
    isTaken: (rolloutId) => registry.get(rolloutId) !== undefined,
    endOf({ acceptance, last }) {
      const state = backend.status(acceptance.rolloutId)
      // Another process ran it, or the backend has forgotten it by now.
      if (state.status === 'unknown' && last !== undefined) return toState(last)
      const { errorMessage } = state
      return { ...state, errorMessage: errorMessage && secrets.redactError(errorMessage) }
    },
  })

  const requests = new RolloutRequests({ backend, files, leases, ownership, services })
  const runs =
    run === false
      ? undefined
      : new Runs(run === true ? {} : run, { backend, admission, requests, logger })
  const local = new LocalRollouts({ backend, requests, admission, leases, delivery })

  return {
    routes: [
      ...portRoutes({ admission: local, results: local, control: local }, options, services),
      ...(runs === undefined ? [] : runRoutes(runs, services.egress)),
    ],
    resume(left) {
      leases.restore(left.records)
      admission.resume(left)
    },
    async settle(maxWaitMs) {
      await leases.close(maxWaitMs)
      await ownership?.close()
    },
  }
}
