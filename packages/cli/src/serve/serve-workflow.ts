import type { QueueWorker } from '@osmosis/bullmq'
import { createRolloutServer, readServerEnvironment, type RolloutServer } from '@osmosis/server'

import {
  localWorkflow,
  openWorkflow,
  workflowText,
  type ServedEntrypoint,
} from '../child/served-workflow.ts'
import { environment, displayPath } from '../command/command-context.ts'
import type { LoadedEntrypoint, LoadedWorkflow } from '../inputs/load-entrypoint.ts'
import { queueAccess } from '../queue/queue-access.ts'
import { queuedWorkflow } from '../queue/queued-workflow.ts'
import { acceptedKeys, commandLogger, openPort } from './listen.ts'
import { assertServable, type ServePlan } from './serve-plan.ts'

/** Serves a workflow until a signal ends the process. @param loaded - see {@link openWorkflow} */
export async function serveWorkflow(
  plan: ServePlan,
  loaded: LoadedWorkflow | undefined,
): Promise<ServedEntrypoint> {
  const settings = readServerEnvironment(environment())
  const { instanceId, ownership, port } = settings
  const apiKey = acceptedKeys(plan.keys, settings.apiKey)
  const logger = commandLogger(plan.logLevel)
  let server: RolloutServer | undefined
  const { backend, facts, check, close } = await openWorkflow(plan, loaded, {
    trainer: 'the training cluster',
    logger: () => server?.logger ?? logger,
  })
  return openPort(plan, close, async () => {
    assertServable(plan, facts, apiKey !== undefined)
    server = createRolloutServer({
      logger,
      backend,
      apiKey,
      instanceId,
      ownership,
      outboxDir: plan.outbox && displayPath(plan.outbox),
      drainSeconds: plan.drainSeconds,
      trajectories: plan.trajectories,
      run: plan.run,
    })
    const lines = [`Serving ${workflowText(facts)}`, ...(plan.run ? aboutRun : [])]
    return { server, port, lines, facts, check }
  })
}

/** Printed for users who train with `POST /run`. */
const aboutRun = [
  'A trainer that uses POST /run gives a failed rollout the reward 0, unless it drops the group.',
  'The page Serving of the documentation has a filter that drops such groups.',
]

/**
 * Serves the rollouts of a workflow that workers of a queue run, until a signal ends the process. The
 * workflow is loaded for its description; no rollout runs here.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `queue_unavailable` when the
 * Redis does not answer
 */
export async function serveQueue(
  plan: ServePlan,
  { redis, maxRollouts, maxQueueDepth }: NonNullable<ServePlan['queue']>,
  found: LoadedEntrypoint,
): Promise<ServedEntrypoint> {
  const settings = readServerEnvironment(environment())
  const { artifactRoot, instanceId, ownership, port } = settings
  const apiKey = acceptedKeys(plan.keys, settings.apiKey)
  const loaded = queuedWorkflow(found)
  const { egress, set } = plan
  const { backend, facts, check } = localWorkflow(loaded, { artifactRoot, egress, set })
  assertServable(plan, facts, apiKey !== undefined)
  const { queuePackage, connection, place } = await queueAccess(redis)
  // Loaded here: servers without a queue start without esbuild.
  const { codeVersion, shortCode } = await import('../queue/code-version.ts')
  const code = await codeVersion(loaded.file, set)
  const logger = commandLogger(plan.logLevel)
  if (ownership !== undefined) {
    logger.warn({}, 'ownership is not reported: every server of a queue has every rollout')
  }
  const queue = await queuePackage.openQueue(connection)
  return openPort(
    plan,
    async () => queue.close(),
    async () => {
      if (maxRollouts !== undefined) {
        await queue.setMaxRollouts(maxRollouts === 'none' ? null : maxRollouts)
      }
      const server = queuePackage.createQueueServer({
        queue,
        code,
        logger,
        apiKey,
        artifactRoot: plan.trajectories ? backend.artifactRoot : undefined,
        egress,
        instanceId,
        maxQueueDepth,
        drainSeconds: plan.drainSeconds,
      })
      const workers = workersText(await queue.workers(), code)
      const lines = [
        `Serving ${workflowText(facts)}`,
        `Over ${place}, code ${shortCode(code)}: ${workers}`,
      ]
      return { server, port, lines, facts, check }
    },
  )
}

/** Human-readable summary of the workers with this code. */
function workersText(workers: readonly QueueWorker[], code: string): string {
  const own = workers.filter((worker) => worker.code === code)
  const slots = own.reduce((sum, { concurrency }) => sum + concurrency, 0)
  const others = workers.length - own.length
  const mine =
    own.length === 0
      ? 'no worker yet, rollouts wait for one'
      : `${counted(own.length, 'worker')} for ${counted(slots, 'rollout')}`
  return others === 0 ? mine : `${mine}; ${counted(others, 'worker')} with other code`
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}
