import { createStderrLogger, readServerEnvironment, serve, type Logger } from '@osmosis/server'
import { ownProcess } from '@osmosis/server/internal'

import { completeEnvironment } from '../environment.ts'
import { loadEntrypoint } from '../serve/load-entrypoint.ts'
import { egressOf } from '../serve/process-options.ts'
import { assertWorkerFlags } from '../serve/serve-command.ts'
import { localWorkflow, type ServedWorkflow } from '../serve/served-workflow.ts'
import { workflowInWorkers } from '../serve/workflow-in-workers.ts'
import { workflowText } from '../serve/workflow-port.ts'
import { onlyWorkflow, queueAccess, queuedWorkflow, shortCode } from './queue-access.ts'
import { createWorkerApp } from './worker-app.ts'
import { rolloutSource } from './worker-flags.ts'
import type { WorkerFlags } from './worker-options.ts'

/** Of a workflow that sets no limit. */
export const defaultConcurrency = 64
/** Between two looks for workers that are silent. */
const longestStalledMs = 5_000

/**
 * Runs rollouts of a queue or of a trainer, as the flags say, until a signal ends the process.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `queue_unavailable` when the
 * Redis does not answer, `unauthorized` when the trainer refuses the key
 */
export async function workerCommand(entrypoint: string, flags: WorkerFlags): Promise<void> {
  const source = rolloutSource(flags)
  assertWorkerFlags(flags)
  completeEnvironment()
  if (source === 'trainer') {
    const { trainerWorker } = await import('../trainer/trainer-worker.ts')
    await trainerWorker(entrypoint, flags)
  } else {
    await queueWorker(entrypoint, source.redis, flags)
  }
}

/** Runs rollouts that servers of a queue have accepted. */
async function queueWorker(entrypoint: string, redis: string, flags: WorkerFlags): Promise<void> {
  const { port, host, lockDuration } = flags
  const { queuePackage, connection, code, place } = await queueAccess(redis, flags, entrypoint)
  const logger = createStderrLogger({ level: flags.logLevel, format: flags.logFormat })
  const { backend, facts, close } = await runnableWorkflow(entrypoint, flags, logger)
  try {
    const concurrency = backend.load().maxConcurrent ?? defaultConcurrency
    const worker = await queuePackage.startRolloutWorker({
      ...connection,
      backend,
      concurrency,
      code,
      ...(lockDuration === undefined ? {} : timesOf(lockDuration)),
      modelCallsPerEndpoint: flags.maxModelCalls,
      logger,
    })
    const { drainTimeout: drainSeconds } = flags
    const app = createWorkerApp({ worker, backend, concurrency, drainSeconds, logger })
    const lines = [
      `Running ${workflowText(facts)}, ${concurrency} at a time`,
      `Taking rollouts from ${place}, code ${shortCode(code)}`,
    ]
    if (port === undefined) {
      ownProcess(async (options) => {
        await app.drain(options)
        await close()
      }, app.logger)
    } else {
      // What it tells is not worth a key: how many rollouts there are, and how the process is.
      const listening = await serve(app, { port, host, allowUnauthenticated: true })
      listening.closed.then(close).catch(() => {})
      lines.push(`Listening on ${listening.url}`)
    }
    process.stdout.write(`${lines.join('\n')}\n`)
  } catch (error) {
    await close()
    throw error
  }
}

/** Silent workers are looked for as often as their silence is short. */
function timesOf(lockSeconds: number): { lockDurationMs: number; stalledIntervalMs: number } {
  const lockDurationMs = lockSeconds * 1000
  return { lockDurationMs, stalledIntervalMs: Math.min(longestStalledMs, lockDurationMs / 2) }
}

/** The workflow that a worker runs, in this process or in processes of its own. */
export async function runnableWorkflow(
  entrypoint: string,
  flags: WorkerFlags,
  logger: Logger,
): Promise<ServedWorkflow> {
  const { artifactRoot } = readServerEnvironment()
  const options = { artifactRoot, egress: egressOf(flags), maxConcurrent: flags.concurrency }
  if (flags.workers === undefined) {
    const loaded = await loadEntrypoint(entrypoint)
    const isQueued = flags.redis !== undefined
    const what = 'What a trainer hands out'
    return localWorkflow(isQueued ? queuedWorkflow(loaded) : onlyWorkflow(loaded, what), options)
  }
  return workflowInWorkers({ spec: entrypoint, ...options }, flags, (end) => {
    const { pid, what, rollouts, restartMs } = end
    logger.warn({ pid, rollouts, restart_ms: restartMs }, `a worker process ended: ${what}`)
  })
}
