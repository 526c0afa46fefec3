import { randomUUID } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import { serve, type ListeningServer } from '@osmosis/server'
import { runTrainerWorker } from '@osmosis/trainers'

import type { WorkflowFacts } from '../serve/served-workflow.ts'
import { workflowText } from '../serve/workflow-port.ts'
import { openTrainer } from './open-trainer.ts'
import { defaultConcurrency, runnableWorkflow } from './runnable-workflow.ts'
import { createWorkerApp } from './worker-app.ts'
import type { WorkerFlags } from './worker-options.ts'
import { printOut } from '../surroundings.ts'
import { commandLogger, ownEnd, serverEnd } from '../server-end.ts'

/**
 * Runs rollouts that a trainer hands out, until a signal ends the process or there are no more.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `unauthorized` when the trainer
 * refuses the key
 */
export async function trainerWorker(entrypoint: string, flags: WorkerFlags): Promise<void> {
  const { port, host, drainTimeout: drainSeconds } = flags
  const logger = commandLogger(flags)
  const { link, leastConcurrency, attempts } = await openTrainer(flags, logger)
  const { backend, facts, close } = await runnableWorkflow(entrypoint, flags, logger)
  const problem = groupProblem(facts, link.name, attempts)
  if (problem !== undefined) {
    await link[Symbol.asyncDispose]()
    await close()
    throw new OsmosisError('invalid_config', problem)
  }
  const slots = backend.load().maxConcurrent ?? defaultConcurrency
  // More of them wait for a slot, or for others of their group.
  const concurrency = Math.max(slots, leastConcurrency)
  const ending = new AbortController()
  const { signal } = ending
  const running = runTrainerWorker({ backend, link, concurrency, signal, drainSeconds, logger })
  const worker = {
    id: randomUUID(),
    get active(): number {
      const { queued, running: active } = backend.load()
      return queued + active
    },
    async close(patience: AbortSignal): Promise<void> {
      patience.addEventListener('abort', () => backend.shutdown())
      ending.abort()
      // What it failed with is the error of the command.
      await running.catch(() => {})
    },
  }
  const app = createWorkerApp({ worker, backend, concurrency: slots, drainSeconds, logger })
  let listening: ListeningServer | undefined
  try {
    const lines = [
      `Running ${workflowText(facts)}, ${slots} at a time`,
      `Taking rollouts from ${link.name}`,
    ]
    if (port === undefined) {
      ownEnd(async (options) => app.drain(options), app.logger)?.catch((error: unknown) =>
        logger.error({ error }, 'closing failed'),
      )
    } else {
      listening = await serve(app, {
        port,
        host,
        allowUnauthenticated: true,
        ...serverEnd(),
      })
      lines.push(`Listening on ${listening.url}`)
    }
    printOut(`${lines.join('\n')}\n`)
    await running
  } finally {
    ending.abort()
    await listening?.close()
    await link[Symbol.asyncDispose]()
    await close()
  }
}

/** Why the grader could not judge a single rollout; undefined when it can. */
function groupProblem(
  { groupMinSize, grader }: WorkflowFacts,
  trainer: string,
  attempts: number | null,
): string | undefined {
  if (groupMinSize === null || (attempts ?? 0) >= groupMinSize) return undefined
  const why =
    attempts === null
      ? `${trainer} does not say which rollouts belong together: use a Grader.`
      : `there are ${attempts} of them, and it needs ${groupMinSize} (group.minSize of its config): raise --attempts.`
  return `${grader} is a GroupGrader, which judges the attempts at a row together, and ${why}`
}
