import { invalid } from '../command/exit-codes.ts'
import type { Entrypoint } from '@osmosis/server/execution'
import {
  createRolloutServer,
  readServerEnvironment,
  type RolloutServer,
  type ServerShell,
} from '@osmosis/server'
import type { WorkerEnd } from '@osmosis/server/child'

import { egressOf, refuseOneOf } from '../command/flags.ts'
import { environment, displayPath, printOut } from '../command/command-context.ts'
import { loadEntrypoint } from '../inputs/load-entrypoint.ts'
import { commandLogger, listen, followKeyFile, serverKeys } from './listen.ts'
import { recordedWorkflow } from '../child/recorded-workflow.ts'
import type { ServeFlags } from './serve.ts'
import {
  localWorkflow,
  workflowInWorkers,
  workflowText,
  type ServedEntrypoint,
  type ServedWorkflow,
  type WorkflowFacts,
} from '../child/served-workflow.ts'

/** @param what - a loaded workflow, or the entrypoint that worker processes load */
export async function serveWorkflow(
  what: { entrypoint: Entrypoint; file: string } | string,
  flags: ServeFlags,
): Promise<ServedEntrypoint> {
  const settings = readServerEnvironment(environment())
  const apiKey = serverKeys(flags, settings.apiKey)
  const options = {
    artifactRoot: settings.artifactRoot,
    egress: egressOf(flags),
    defaultConcurrency: flags.concurrency,
    set: flags.set,
  }
  const logger = commandLogger(flags)
  const { reward, groupColumn, groupSize } = flags
  let server: RolloutServer | undefined
  const onWorkerEnd = ({ pid, what: happened, rollouts, restartMs }: WorkerEnd): void => {
    const line = { pid, rollouts, restart_ms: restartMs }
    const log = server?.logger ?? logger
    log.warn(line, `a worker ended: ${happened}`)
  }
  const plain =
    typeof what === 'string'
      ? await workflowInWorkers({ spec: what, ...options }, flags, onWorkerEnd)
      : localWorkflow(what, options)
  const served = await recordedWorkflow(plain, flags.record, 'the training cluster', logger)
  const { backend, facts, close } = served
  try {
    assertWorkflowFlags(flags, facts.file)
    assertGroupsAreNamed(flags, facts)
    server = createRolloutServer({
      logger,
      backend,
      apiKey,
      instanceId: settings.instanceId,
      ownership: settings.ownership,
      outboxDir: flags.outbox && displayPath(flags.outbox),
      drainSeconds: flags.drainTimeout,
      trajectories: flags.trajectories,
      run: flags.run === true && { reward, groupColumn, groupSize },
    })
    const lines = flags.run ? [aboutRun] : []
    return await openWorkflowPort(server, served, { flags, port: settings.port, lines })
  } catch (error) {
    await close()
    throw error
  }
}

/** Printed for users who train with `POST /run`. */
const aboutRun =
  'Rollouts of POST /run that fail are trained with reward 0 unless the trainer drops their groups: the page Serving of the documentation has the filter'

/**
 * Serves the rollouts of a workflow that workers of a queue run, until a signal ends the process. The
 * workflow is loaded for its description; no rollout runs here.
 *
 * @param redis - the flag of that name
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `queue_unavailable` when the
 * Redis does not answer
 */
export async function serveQueue(
  spec: string,
  redis: string,
  flags: ServeFlags,
): Promise<ServedEntrypoint> {
  const settings = readServerEnvironment(environment())
  const apiKey = serverKeys(flags, settings.apiKey)
  const { queueAccess, queuedWorkflow, shortCode, workersText } = await import('./queue-access.ts')
  const loaded = queuedWorkflow(await loadEntrypoint(spec))
  assertWorkflowFlags(flags, loaded.file)
  const { queuePackage, connection, code, place } = await queueAccess(redis, loaded.file, flags.set)
  const { artifactRoot, instanceId, port } = settings
  const logger = commandLogger(flags)
  if (settings.ownership !== undefined) {
    logger.warn({}, 'ownership is not reported: every server of a queue has every rollout')
  }
  const egress = egressOf(flags)
  const { backend, facts, check } = localWorkflow(loaded, {
    artifactRoot,
    egress,
    set: flags.set,
  })
  const queue = await queuePackage.openQueue(connection)
  const close = async (): Promise<void> => queue.close()
  try {
    const { maxRollouts: most } = flags
    if (most !== undefined) await queue.setMaxRollouts(most === 'none' ? null : most)
    const server = queuePackage.createQueueServer({
      queue,
      code,
      logger,
      apiKey,
      artifactRoot: flags.trajectories ? backend.artifactRoot : undefined,
      egress,
      instanceId,
      maxQueueDepth: flags.maxQueueDepth,
      drainSeconds: flags.drainTimeout,
    })
    const lines = [
      `Over ${place}, code ${shortCode(code)}: ${workersText(await queue.workers(), code)}`,
    ]
    return await openWorkflowPort(server, { facts, check, close }, { flags, port, lines })
  } catch (error) {
    await close()
    throw error
  }
}

/** The port of a workflow's server, and what is printed about it. */
interface WorkflowPort {
  readonly flags: ServeFlags
  /** Default port. */
  readonly port: number
  /** What is printed between the workflow and the address. Default: nothing. */
  readonly lines?: readonly string[]
}

/** Opens the port of a workflow's server, and prints what is served where. */
async function openWorkflowPort(
  server: ServerShell,
  { facts, check, close }: Pick<ServedWorkflow, 'facts' | 'check' | 'close'>,
  { flags, port, lines = [] }: WorkflowPort,
): Promise<ServedEntrypoint> {
  followKeyFile(server, flags.apiKeyFile)
  const { host, auth } = flags
  const listening = await listen(server, { port: flags.port ?? port, host, auth })
  const closed = listening.closed.then(close)
  closed.catch(() => {})
  const key = server.requiresKey ? 'with a bearer key' : 'open, no key required'
  const said = [
    `Serving ${workflowText(facts)}`,
    ...lines,
    `Listening on ${listening.url} (${key})`,
  ]
  printOut(`${said.join('\n')}\n`)
  return {
    url: listening.url,
    facts,
    check,
    closed,
    close: async () => {
      await listening.close()
      await closed
    },
  }
}

/** @throws OsmosisError with code `invalid_config` for flags of agent loops */
function assertWorkflowFlags({ register, log }: ServeFlags, file: string): void {
  refuseOneOf(
    { '--register': register, '--log': log },
    (flag) => `${flag} is for agent loops, and ${file} exports an AgentWorkflow.`,
  )
}

/** @throws OsmosisError with code `invalid_config` where every rollout of `POST /run` would fail */
function assertGroupsAreNamed(
  { run, groupSize }: ServeFlags,
  { file, groupMinSize }: WorkflowFacts,
): void {
  if (!run || groupMinSize === null || groupSize !== undefined) return
  throw invalid(
    `The grader of ${file} compares the attempts at a row: pass --group-column and --group-size, which define the groups of POST /run.`,
  )
}
