import { errorMessage, type EgressOptions } from '@osmosis/core'
import type {
  CallbackRetryOptions,
  LeaseOptions,
  RolloutServer,
  ServerShellOptions,
} from '@osmosis/server'
import {
  createServerShell,
  leaseSettings,
  portRoutes,
  TrajectoryFiles,
  type ServerServices,
} from '@osmosis/server/protocols'

import { RolloutQueue, type OpenQueue } from '../queue/rollout-queue.ts'
import { QueueControl, showQueue } from './queue-control.ts'
import { QueueAdmission } from './queue-admission.ts'
import { LeaseKeeper, QueueResults } from './queue-leases.ts'
import { DeliveryLoop } from './delivery-loop.ts'

/** Options of {@link createQueueServer}. */
export interface QueueServerOptions extends Omit<ServerShellOptions, 'outboxDir'> {
  /** The rollouts; the caller opened it, and closes it when the server is closed. */
  queue: OpenQueue
  /** Digest of the code that may run what is accepted; workers with other code leave it alone. */
  code: string
  /** Most rollouts that may wait for a worker, at all fronts together. Default: any number. */
  maxQueueDepth?: number | undefined
  /** Status of an accepted rollout with callbacks: 202 (default), or 200 for older controllers. */
  admissionStatus?: 200 | 202 | undefined
  /** Name in `/health` and in the answer of a drain; default: the id of the process. */
  instanceId?: string | undefined
  /** How results are kept for callers that fetch them. All fronts of a queue are to agree. */
  leases?: LeaseOptions | undefined
  /** How long and how often a callback is tried before it is put back in the queue. */
  callbackRetry?: CallbackRetryOptions | undefined
  /**
   * How long after its acceptance a rollout's callbacks are taken out of the queue again to be sent.
   * Seconds; default one day.
   */
  undeliveredSeconds?: number | undefined
  /**
   * How long this front may be silent before others tell what it was telling. Milliseconds; default
   * 10,000.
   */
  lockDurationMs?: number | undefined
  /** Where callbacks may go; default: what `EgressOptions` of core say. */
  egress?: EgressOptions | undefined
  /** Folder for the trajectory documents of what this front tells; default: there are none. */
  artifactRoot?: string | undefined
}

/** Results that are told at the same time: most of the time of each is waiting. */
const tellingAtOnce = 1_000

/**
 * A front of a queue: the rollout server for rollouts that run on workers of any machine. Any number of
 * fronts serve the same rollouts, and it does not matter which one is asked; what one of them leaves
 * behind, others tell. `osmosis_priority` in the metadata of a rollout, a whole number from 1, puts it
 * behind those with lower numbers, and behind those without.
 *
 * @throws OsmosisError with code `invalid_config` for a key that nobody can present, a limit that is
 * not a number of at least 0, or times of leases that do not fit together
 */
export function createQueueServer(options: QueueServerOptions): RolloutServer {
  let front: Front | undefined
  return createServerShell(
    {
      ...options,
      onStartup: async () => {
        await options.onStartup?.()
        front?.begin()
      },
    },
    (services) => {
      const { ports, inFlight } = (front = toFront(options, services))
      return {
        title: 'Osmosis rollout server',
        unauthorized: 'Unauthorized',
        routes: portRoutes(ports, options, services),
        resume: () => {},
        inFlight,
        // What runs is not this front's to end, and others tell what it does not get to.
        endWork: () => {},
        settle: async () => front?.end(),
      }
    },
  )
}

interface Front {
  readonly ports: {
    readonly admission: QueueAdmission
    readonly results: QueueResults
    readonly control: QueueControl
  }
  /** How many rollouts of the queue are in flight. */
  readonly inFlight: () => Promise<number>
  /** Begins to do its part of what fronts do together. */
  begin(): void
  end(): void
}

function toFront(options: QueueServerOptions, services: ServerServices): Front {
  const { queue, code, maxQueueDepth, undeliveredSeconds = 86_400 } = options
  if (!(queue instanceof RolloutQueue)) throw new TypeError('The queue must come from openQueue().')
  const { lockDurationMs: lockMs = 10_000 } = options
  const { logger, metrics, ending, work } = services
  const leases = leaseSettings(options.leases)
  const parts = { queue, leases, logger }
  const admission = new QueueAdmission({ ...parts, code, maxQueueDepth, ending })
  const results = new QueueResults(parts)
  const control = new QueueControl({ queue, admission, services })
  const keeper = new LeaseKeeper(parts)
  const files = new TrajectoryFiles(options.artifactRoot, services)
  const undeliveredMs = undeliveredSeconds * 1000
  const deliveries = new DeliveryLoop({ ...parts, files, services, lockMs, undeliveredMs })
  const inFlight = showQueue(metrics, queue, keeper)
  for (const warning of queue.warnings) logger.warn({}, warning)

  /** For a drain to wait for. */
  const tell = async (rolloutId: string, mayHaveEnded: boolean): Promise<void> => {
    const telling = deliveries.deliver(rolloutId, mayHaveEnded)
    work.start(async () => telling.catch(() => {}))
    try {
      await telling
    } catch (error) {
      const line = { rollout_id: rolloutId, error }
      logger.warn(line, `results not told yet: ${errorMessage(error)}`)
      throw error
    }
  }
  return {
    ports: { admission, results, control },
    inFlight,
    begin() {
      if (ending.aborted) return
      keeper.start()
      deliveries.start()
      const stop = queue.deliverResults(tell, tellingAtOnce, lockMs)
      ending.addEventListener('abort', () => {
        keeper.close()
        stop()
      })
    },
    end() {
      results.close()
      deliveries.close()
    },
  }
}
