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

import { logReplication, logTroubles } from '../queue/queue-troubles.ts'
import { RolloutQueue, type OpenQueue } from '../queue/rollout-queue.ts'
import { DeliveryLoop } from './delivery-loop.ts'
import { QueueAdmission } from './queue-admission.ts'
import { QueueControl, showQueue } from './queue-control.ts'
import { LeaseKeeper, QueueResults } from './queue-leases.ts'

/** Options of {@link createQueueServer}. */
export interface QueueServerOptions extends Omit<ServerShellOptions, 'outboxDir'> {
  /** The queue, which the caller closes after the server is closed. */
  queue: OpenQueue
  /** Digest of the code that may execute accepted rollouts; workers with other code skip them. */
  code: string
  /** Maximum number of rollouts that wait for a worker, for all servers together. Default: unlimited. */
  maxQueueDepth?: number | undefined
  /** Status of an accepted rollout with callbacks: 202 (default), or 200 for older controllers. */
  admissionStatus?: 200 | 202 | undefined
  /** Name in `/health` and in the answer of a drain. Default: the id of the process. */
  instanceId?: string | undefined
  /** How results are stored for callers that fetch them. All servers of a queue need the same values. */
  leases?: LeaseOptions | undefined
  /** How long and how often a callback is tried before it returns to the queue. */
  callbackRetry?: CallbackRetryOptions | undefined
  /**
   * How long after the acceptance of a rollout its callbacks are retried. Seconds; default: one day.
   */
  undeliveredSeconds?: number | undefined
  /**
   * How long this server may be silent before others take over its deliveries. Milliseconds; default: 10,000.
   */
  lockDurationMs?: number | undefined
  /** Where callbacks may be sent. Default: see `EgressOptions` of core. */
  egress?: EgressOptions | undefined
  /** Folder for the trajectory documents of rollouts that this server delivers. Default: none are written. */
  artifactRoot?: string | undefined
}

/** Concurrent deliveries: each spends most of its time waiting. */
const mostDeliveries = 1_000

/**
 * A rollout server over a queue, for rollouts that run on workers of many machines. Any number of servers
 * serve the same rollouts, and callers may use any of them; outcomes that one server does not deliver are
 * delivered by others. `osmosis_priority` in the metadata of a rollout is its priority, see `queuePriority`.
 *
 * @throws OsmosisError with code `invalid_config` for a key that cannot be sent in a header, a limit that is
 * not a number of at least 0, or inconsistent times of leases
 */
export function createQueueServer(options: QueueServerOptions): RolloutServer {
  let serving: QueueServing | undefined
  return createServerShell(
    {
      ...options,
      onStartup: async () => {
        await options.onStartup?.()
        serving?.begin()
      },
    },
    (services) => {
      const { ports, inFlight } = (serving = toServing(options, services))
      return {
        title: 'Osmosis rollout server',
        unauthorized: 'Unauthorized',
        routes: portRoutes(ports, options, services),
        resume: () => {},
        inFlight,
        // Workers continue their rollouts, and other servers deliver the rest.
        endWork: () => {},
        settle: async () => serving?.end(),
      }
    },
  )
}

interface QueueServing {
  readonly ports: {
    readonly admission: QueueAdmission
    readonly results: QueueResults
    readonly control: QueueControl
  }
  /** How many rollouts of the queue are in flight. */
  readonly inFlight: () => Promise<number>
  /** Starts delivering outcomes and ending expired leases. */
  begin(): void
  end(): void
}

function toServing(options: QueueServerOptions, services: ServerServices): QueueServing {
  const { queue, code, maxQueueDepth, undeliveredSeconds = 86_400 } = options
  if (!(queue instanceof RolloutQueue)) throw new TypeError('The queue must come from openQueue().')
  const { lockDurationMs: lockMs = 10_000 } = options
  const { logger, metrics, ending, work } = services
  const leases = leaseSettings(options.leases)
  const parts = { queue, leases, logger }
  const admission = new QueueAdmission({ ...parts, code, maxQueueDepth, ending })
  const results = new QueueResults(parts)
  const control = new QueueControl({ queue, admission, code, services })
  const keeper = new LeaseKeeper(parts)
  const files = new TrajectoryFiles(options.artifactRoot, services)
  const undeliveredMs = undeliveredSeconds * 1000
  const deliveries = new DeliveryLoop({ ...parts, files, services, lockMs, undeliveredMs })
  const inFlight = showQueue(metrics, queue, keeper)
  for (const warning of queue.warnings) logger.warn({}, warning)
  logTroubles(queue, logger)
  logReplication(queue.records, logger)

  /** Registers the delivery, for which a drain waits. */
  const deliver = async (rolloutId: string, mayHaveEnded: boolean): Promise<void> => {
    const delivery = deliveries.deliver(rolloutId, mayHaveEnded)
    work.start(async () => delivery.catch(() => {}))
    try {
      await delivery
    } catch (error) {
      const line = { rollout_id: rolloutId, error }
      logger.warn(line, `outcome not delivered yet: ${errorMessage(error)}`)
      throw error
    }
  }
  const onUntold = (error: unknown): void =>
    logger.warn(
      { error },
      `This server learns of outcomes later, through jobs alone: ${errorMessage(error)}`,
    )
  return {
    ports: { admission, results, control },
    inFlight,
    begin() {
      if (ending.aborted) return
      keeper.start()
      deliveries.start()
      const stop = queue.deliverResults(deliver, {
        concurrency: mostDeliveries,
        lockMs,
        onUntold,
      })
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
