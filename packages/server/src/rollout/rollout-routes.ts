import type { ExecutionBackend } from '@osmosis/runtime'

import type { ServerRoute } from '../http/server-route.ts'
import type { ServerProtocol, ServerServices } from '../http/server-shell.ts'
import type { LeaseOptions } from '../leases/lease-registry.ts'
import { Leases } from '../leases/leases.ts'
import { resultRoute } from '../leases/result-route.ts'
import { runRoutes } from '../run/run-routes.ts'
import type { RunRouteOptions } from '../run/run-options.ts'
import { Runs } from '../run/runs.ts'
import { OwnershipLog, type OwnershipOptions } from '../ownership/ownership-log.ts'
import { Admission } from '../work/admission.ts'
import { acceptRoute } from './accept-route.ts'
import { controlRoutes } from './control-routes.ts'
import { OwnRollouts } from './own-rollouts.ts'
import { toState } from './rollout-callbacks.ts'
import { showBackend, showLeases } from './rollout-gauges.ts'
import type { RolloutPorts } from './rollout-ports.ts'
import { RolloutRequests } from './rollout-requests.ts'
import { TrajectoryFiles } from './trajectory-files.ts'

/** What the rollout protocol is served with. */
export interface RolloutProtocolOptions {
  /** Executes the rollouts; the caller made it, and the server shuts it down when it drains. */
  backend: ExecutionBackend
  /**
   * Status of an accepted rollout with callbacks: 202 (default), or 200 for older controllers.
   * Leased rollouts are always accepted with 202.
   */
  admissionStatus?: 200 | 202 | undefined
  /** Name in `/health` and in the answer of a drain; default: the id of the process. */
  instanceId?: string | undefined
  /** Where it is reported which rollouts this server has; default: nowhere. */
  ownership?: OwnershipOptions | undefined
  /** How results are kept for callers that fetch them. */
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

/** The routes of the rollout protocol: each translates between the wire and one port behind it. */
export function portRoutes(
  { intake, results, control }: RolloutPorts,
  {
    admissionStatus = 202,
    instanceId,
  }: Pick<RolloutProtocolOptions, 'admissionStatus' | 'instanceId'>,
  services: ServerServices,
): ServerRoute[] {
  services.metrics.callbacks.expect('completion', 'grader')
  return [
    acceptRoute({ intake, admissionStatus, egress: services.egress }),
    resultRoute(results),
    ...controlRoutes(control, instanceId, services),
  ]
}

/**
 * The rollout protocol for a backend of this process.
 *
 * @returns the routes, what takes up the rollouts of an earlier process, and what waits for callers
 * that fetch their results when the server ends
 */
export function rolloutRoutes(
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
      // The backend of another process ran it, or it took long to be told.
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
  const own = new OwnRollouts({ backend, requests, admission, leases, delivery })

  return {
    routes: [
      ...portRoutes({ intake: own, results: own, control: own }, options, services),
      ...(runs === undefined ? [] : runRoutes(runs, services.egress)),
    ],
    resume(left) {
      leases.restore(left.records)
      admission.resume(left)
    },
    async settle(longestMs) {
      await leases.close(longestMs)
      await ownership?.close()
    },
  }
}
