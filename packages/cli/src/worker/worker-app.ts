import { timeLimit } from '@osmosis/core/http'
import type { ExecutionBackend } from '@osmosis/protocol'
import { healthResponseSchema, type HealthResponseBody } from '@osmosis/protocol/wire'
import { readServerEnvironment, type Logger, type ServableApp } from '@osmosis/server'
import { settled, withStages } from '@osmosis/server/execution'
import {
  counted,
  createServerShell,
  HttpRefusal,
  jsonAnswer,
  owned,
  OwnershipLog,
  ownProcess,
  showBackend,
  type ServerRoute,
} from '@osmosis/server/protocols'

import { endSignal, environment } from '../command/command-context.ts'

/** A worker that runs rollouts of a queue or a trainer. */
interface RunningWorker {
  readonly id: string
  /** Number of its rollouts. */
  readonly active: number
  /** Those of them that have ended, whose outcome has not arrived where it belongs. Default: 0. */
  readonly undelivered?: number
  /** Why it can neither take rollouts nor say how they end. Default: it can. */
  readonly trouble?: Error | undefined
  /** Ends it; running rollouts may finish until `patience` aborts. */
  close(patience: AbortSignal): Promise<void>
}

/**
 * The health and metrics of a worker, and its shutdown. Rollouts run with its `backend`, which counts them where the
 * worker does.
 */
export function createWorkerApp(options: {
  readonly worker: RunningWorker
  readonly backend: ExecutionBackend
  /** Maximum number of concurrent rollouts. */
  readonly concurrency: number
  /** Time for running rollouts to finish when the worker shuts down. Seconds; default 30. */
  readonly drainSeconds: number | undefined
  readonly logger: Logger
  /**
   * Outcomes so far, of a worker that counts its rollouts and reports their ownership. Default: it does neither; a queue
   * does both for its workers.
   */
  readonly outcomes?: () => Readonly<Record<'acknowledged' | 'gave_up', number>>
}): ServableApp & { readonly backend: ExecutionBackend } {
  const { worker, backend, concurrency, drainSeconds = 30, outcomes } = options
  const settings = readServerEnvironment(environment())
  let executing = backend
  let ownership: OwnershipLog | undefined
  const shell = createServerShell({ logger: options.logger }, ({ metrics, ending, logger }) => {
    showBackend(metrics, backend)
    if (outcomes !== undefined) {
      ownership = settings.ownership && new OwnershipLog(settings.ownership, logger)
      const own = ownership === undefined ? [] : [owned(ownership)]
      executing = withStages(backend, settled, counted(metrics), ...own)
      metrics.counters(
        'osmosis_outcomes_total',
        'Outcomes for the trainer: acknowledged, or gave_up when they could not be delivered.',
        'outcome',
        outcomes,
      )
      metrics.gauge(
        'osmosis_outcomes_pending',
        'Rollouts that have ended, and whose outcome the trainer has not acknowledged.',
        () => worker.undelivered ?? 0,
      )
    }
    const health: ServerRoute = {
      method: 'GET',
      path: '/health',
      summary: 'Whether the worker is up, and how busy it is',
      open: true,
      answers: {
        200: { description: 'Up', schema: healthResponseSchema },
        503: { description: 'The Redis of its queue does not answer, or stores nothing' },
      },
      handle() {
        // Its log says why: anybody may read this answer.
        if (worker.trouble !== undefined) throw new HttpRefusal(503, 'the queue stores nothing now')
        const { queued, running } = backend.load()
        return jsonAnswer({
          status: 'ok',
          concurrency: { max_concurrent: concurrency, queued, running },
          undelivered: worker.undelivered ?? 0,
          instance_id: worker.id,
          lifecycle: { accepting_rollouts: !ending.aborted, active_rollouts: worker.active },
        } satisfies HealthResponseBody)
      },
    }
    return {
      title: 'Osmosis rollout worker',
      unauthorized: 'Unauthorized',
      routes: [health],
      resume: () => {},
      inFlight: () => worker.active,
      endWork: () => {},
    }
  })
  let closed: Promise<void> | undefined
  const close = async (): Promise<void> => {
    await shell.close()
    await ownership?.close()
  }
  return {
    backend: executing,
    fetch: shell.fetch,
    requiresKey: shell.requiresKey,
    logger: shell.logger,
    start: () => shell.start(),
    async drain({ waitSeconds = drainSeconds } = {}) {
      await worker.close(timeLimit(waitSeconds * 1000))
      await (closed ??= close())
    },
  }
}

/**
 * Calls `close` when the command ends, for a worker without a port: on the signals of the process, or on the
 * end signal of the command. Returns a promise of the end for the latter.
 */
export function ownEnd(
  close: Parameters<typeof ownProcess>[0],
  logger: Logger,
): Promise<void> | undefined {
  const signal = endSignal()
  if (signal === undefined) {
    ownProcess(close, logger)
    return undefined
  }
  return new Promise((resolve, reject) => {
    const onAbort = (): void => void close().then(resolve, reject)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  })
}

/** Concurrent rollouts of a workflow without a limit. */
export const defaultConcurrency = 64
