import { randomUUID } from 'node:crypto'

import { assertApiKey } from '@osmosis/core/http'
import type { ListeningServer, Logger } from '@osmosis/server'
import type { RewardRule } from '@osmosis/server/execution'
import {
  runTrainerWorker,
  agentLightning,
  type AgentLightningOptions,
  type TrainerLink,
  type WorkerSummary,
} from '@osmosis/trainer-links'

import {
  openWorkflow,
  workflowText,
  type ServedWorkflow,
  type WorkflowFacts,
} from '../child/served-workflow.ts'
import { printOut, environment } from '../command/command-context.ts'
import { invalid, invalidEntrypoint } from '../command/wrong-use.ts'
import { loadEntrypoint, requireWorkflow } from '../inputs/load-entrypoint.ts'
import { loadExports, namedExport } from '../inputs/load-module.ts'
import { commandLogger, listen } from '../serve/listen.ts'
import { createWorkerApp, defaultConcurrency, ownEnd } from './worker-app.ts'
import type { LightningSource, WorkerPlan } from './worker-plan.ts'

/**
 * Runs the rollouts that Agent Lightning assigns, until a signal ends the process or it has no more.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `unauthorized` when the trainer
 * refuses the key
 */
export async function lightningWorker(plan: WorkerPlan, source: LightningSource): Promise<void> {
  const { port, host, drainSeconds } = plan
  const logger = commandLogger(plan.logLevel)
  const link = await openLink(source, logger)
  const opened = openOwnWorkflow(plan, logger).catch(async (error: unknown) => {
    await link[Symbol.asyncDispose]()
    throw error
  })
  const { backend, facts, close } = await opened
  const problem = groupProblem(facts, link.name, source.groupSize)
  if (problem !== undefined) {
    await link[Symbol.asyncDispose]()
    await close()
    throw invalid(problem)
  }
  const slots = backend.load().maxConcurrent ?? defaultConcurrency
  // More rollouts than slots wait for a slot, or for the rest of their group.
  const concurrency = Math.max(slots, source.groupSize ?? 1)
  const ending = new AbortController()
  const { signal } = ending
  let figures: WorkerSummary | undefined
  const worker = {
    id: randomUUID(),
    get active(): number {
      return figures?.claimed ?? 0
    },
    get undelivered(): number {
      return figures?.pending ?? 0
    },
    async close(patience: AbortSignal): Promise<void> {
      patience.addEventListener('abort', () => backend.shutdown())
      ending.abort()
      // The command reports this error.
      await running.catch(() => {})
    },
  }
  const app = createWorkerApp({
    worker,
    backend,
    concurrency: slots,
    drainSeconds,
    logger,
    outcomes: () => ({
      acknowledged: figures?.acknowledged ?? 0,
      gave_up: figures?.undelivered ?? 0,
    }),
  })
  const running = runTrainerWorker({
    backend: app.backend,
    link,
    concurrency,
    signal,
    drainSeconds,
    logger,
    onStart: (live) => {
      figures = live
    },
  })
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
      listening = await listen(app, { port, host })
      lines.push(`Listening on ${listening.url}`)
    }
    printOut(`${lines.join('\n')}\n`)
    await running
  } finally {
    ending.abort()
    await listening?.close()
    await app.drain()
    await link[Symbol.asyncDispose]()
    await close()
  }
}

async function openOwnWorkflow(plan: WorkerPlan, logger: Logger): Promise<ServedWorkflow> {
  const loaded =
    plan.processes === undefined
      ? requireWorkflow(await loadEntrypoint(plan.entrypoint), 'A worker of a trainer')
      : undefined
  return openWorkflow(plan, loaded, { trainer: 'Agent Lightning', logger: () => logger })
}

/** Why the grader could not grade any rollout; undefined when it can. */
function groupProblem(
  { groupMinSize, grader }: WorkflowFacts,
  trainer: string,
  attempts: number | undefined,
): string | undefined {
  if (groupMinSize === null || (attempts ?? 0) >= groupMinSize) return undefined
  const why =
    attempts === undefined
      ? `${trainer} does not group rollouts: pass --group-column and --group-size, or use a Grader.`
      : `there are ${attempts} of them, and it needs ${groupMinSize} (group.minSize of its config): raise --group-size.`
  return `${grader} is a GroupGrader, which grades the attempts at a row together, and ${why}`
}

/**
 * The link to the gateway.
 *
 * @throws OsmosisError with code `invalid_config`; `invalid_entrypoint` for a module of rows that cannot be used
 */
async function openLink(source: LightningSource, logger: Logger): Promise<TrainerLink> {
  const { url, groupColumn, groupSize } = source
  const apiKey = environment()['OSMOSIS_TRAINER_KEY'] || undefined
  assertApiKey(apiKey, 'OSMOSIS_TRAINER_KEY')
  const rows = source.rows === undefined ? undefined : await loadRows(source.rows)
  const reward = rewardRule(source.reward)
  return agentLightning({ url, apiKey, reward, rows, groupColumn, groupSize, logger })
}

function rewardRule(given: string | undefined): RewardRule | undefined {
  return given === undefined || given === 'mean' || given === 'sum' ? given : { sampleId: given }
}

async function loadRows(file: string): Promise<NonNullable<AgentLightningOptions['rows']>> {
  const loaded = await loadExports('module of rows', file)
  const rows = namedExport(loaded, 'rows')
  if (typeof rows === 'function') return rows as NonNullable<AgentLightningOptions['rows']>
  throw invalidEntrypoint(`${loaded.file} exports rows, which is not a function.`)
}
