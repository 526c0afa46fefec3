import type { ExecutionBackend } from '@osmosis/runtime'
import { healthResponseSchema, type HealthResponseBody } from '@osmosis/runtime/wire'
import type { Logger, ServableApp } from '@osmosis/server'
import {
  createServerShell,
  jsonAnswer,
  showBackend,
  type ServerRoute,
} from '@osmosis/server/protocols'

/** What takes rollouts, whoever hands them out. */
interface RunningWorker {
  readonly id: string
  /** How many rollouts it has. */
  readonly active: number
  /** Ends it; what runs may go on until `patience` aborts. */
  close(patience: AbortSignal): Promise<void>
}

/** What a {@link createWorkerApp} is about. */
export interface WorkerAppOptions {
  readonly worker: RunningWorker
  readonly backend: ExecutionBackend
  /** Most rollouts at the same time. */
  readonly concurrency: number
  /** How long rollouts may go on when the worker is told to end. Seconds; default 30. */
  readonly drainSeconds: number | undefined
  readonly logger: Logger
}

/** What a worker answers about itself, on whatever port it gets, and how it ends. */
export function createWorkerApp(options: WorkerAppOptions): ServableApp {
  const { worker, backend, concurrency, drainSeconds = 30 } = options
  const shell = createServerShell({ logger: options.logger }, ({ metrics, ending }) => {
    showBackend(metrics, backend)
    const health: ServerRoute = {
      method: 'GET',
      path: '/health',
      summary: 'Whether the worker is up, and how busy it is',
      open: true,
      answers: { 200: { description: 'Up', schema: healthResponseSchema } },
      handle() {
        const { queued, running } = backend.load()
        return jsonAnswer({
          status: 'ok',
          concurrency: { max_concurrent: concurrency, queued, running },
          undelivered: 0,
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
  return {
    fetch: shell.fetch,
    requiresKey: shell.requiresKey,
    logger: shell.logger,
    start: () => shell.start(),
    async drain({ waitSeconds = drainSeconds } = {}) {
      await worker.close(AbortSignal.timeout(waitSeconds * 1000))
      await shell.close()
    },
  }
}
