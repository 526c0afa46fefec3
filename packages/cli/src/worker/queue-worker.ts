import { openWorkflow, workflowText } from '../child/served-workflow.ts'
import { endSignal, printOut } from '../command/command-context.ts'
import { loadEntrypoint } from '../inputs/load-entrypoint.ts'
import { codeVersion, shortCode } from '../queue/code-version.ts'
import { queueAccess } from '../queue/queue-access.ts'
import { queuedWorkflow } from '../queue/queued-workflow.ts'
import { commandLogger, listen, tryPort } from '../serve/listen.ts'
import { createWorkerApp, defaultConcurrency, ownEnd } from './worker-app.ts'
import type { QueueSource, WorkerPlan } from './worker-plan.ts'

/** Maximum interval between checks for silent workers. Milliseconds. */
const longestStalledMs = 5_000

/**
 * Runs rollouts that servers of a queue have accepted, until a signal ends the process.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `queue_unavailable` when the
 * Redis does not answer
 */
export async function queueWorker(plan: WorkerPlan, source: QueueSource): Promise<void> {
  const { entrypoint, port, host, drainSeconds } = plan
  const { lockDuration } = source
  const { queuePackage, connection, place } = await queueAccess(source.redis)
  const code = await codeVersion(entrypoint, plan.set)
  const logger = commandLogger(plan.logLevel)
  const loaded =
    plan.processes === undefined ? queuedWorkflow(await loadEntrypoint(entrypoint)) : undefined
  const record = { trainer: 'the queue', logger: () => logger }
  const { backend, facts, close } = await openWorkflow(plan, loaded, record)
  let release = close
  try {
    if (port !== undefined) await tryPort({ port, host })
    const concurrency = backend.load().maxConcurrent ?? defaultConcurrency
    const worker = await queuePackage.startRolloutWorker({
      ...connection,
      backend,
      concurrency,
      code,
      ...(lockDuration === undefined ? {} : timesOf(lockDuration)),
      modelCallsPerEndpoint: source.maxModelCalls,
      logger,
    })
    release = async () => {
      // Gives back the rollouts that it has taken.
      await worker.close(AbortSignal.abort())
      await close()
    }
    const app = createWorkerApp({ worker, backend, concurrency, drainSeconds, logger })
    const lines = [
      `Running ${workflowText(facts)}, ${concurrency} at a time`,
      `Taking rollouts from ${place}, code ${shortCode(code)}`,
    ]
    let ended: Promise<void> | undefined
    if (port === undefined) {
      ended = ownEnd(async (options) => {
        await app.drain(options)
        await close()
      }, app.logger)
    } else {
      // Health and metrics contain no data of rollouts, so they need no key.
      const listening = await listen(app, { port, host })
      const closed = listening.closed.then(close)
      closed.catch(() => {})
      if (endSignal() !== undefined) ended = closed
      lines.push(`Listening on ${listening.url}`)
    }
    printOut(`${lines.join('\n')}\n`)
    await ended
  } catch (error) {
    await release()
    throw error
  }
}

/** The shorter the allowed silence, the more often silent workers are looked for. */
function timesOf(lockSeconds: number): { lockDurationMs: number; stalledIntervalMs: number } {
  const lockDurationMs = lockSeconds * 1000
  return { lockDurationMs, stalledIntervalMs: Math.min(longestStalledMs, lockDurationMs / 2) }
}
