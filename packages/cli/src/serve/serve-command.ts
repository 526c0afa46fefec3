import { OsmosisError, type Entrypoint } from '@osmosis/core'
import {
  createRolloutServer,
  readServerEnvironment,
  type RolloutServer,
  type RunOptions,
} from '@osmosis/server'
import type { WorkerEnd } from '@osmosis/workers'

import { completeEnvironment } from '../environment.ts'
import { assertQueueFlags } from '../queue/queue-flags.ts'
import { guessNoLifetimes } from '../young-generation.ts'
import { loadEntrypoint } from './load-entrypoint.ts'
import { assertRegistrationFlags } from './registration.ts'
import { serveAgentLoop } from './serve-agent-loop.ts'
import { egressOf, type ProcessFlags } from './process-options.ts'
import type { ServeFlags } from './serve-options.ts'
import { localWorkflow, type WorkflowFacts } from './served-workflow.ts'
import { awaitKeyFile, serverKeys } from './server-keys.ts'
import { workflowInWorkers } from './workflow-in-workers.ts'
import { assertWorkflowFlags, openWorkflowPort } from './workflow-port.ts'
import { environment, namedHere } from '../surroundings.ts'
import { commandLogger } from '../server-end.ts'

/**
 * Serves the rollouts of an entrypoint, a workflow or an agent loop, until a signal ends the
 * process.
 *
 * @throws OsmosisError with code `invalid_config` unless one is named, for flags that do not fit
 * together or not to what is served, and for a file of variables that is not there;
 * `invalid_entrypoint` for what cannot be served
 */
export async function serveCommand(
  entrypoint: string | undefined,
  flags: ServeFlags,
): Promise<void> {
  const spec = entrypoint ?? flags.module
  if (spec === undefined || (entrypoint !== undefined && flags.module !== undefined)) {
    throw invalid(
      'Name what to serve, once: a module that exports an AgentWorkflow or an agent loop, as <file> or -m <file>:<export>.',
    )
  }
  assertRegistrationFlags(flags)
  assertQueueFlags(flags)
  assertRunFlags(flags)
  guessNoLifetimes()
  completeEnvironment()
  awaitKeyFile(flags.apiKeyFile)
  if (flags.redis !== undefined) {
    const { serveQueue } = await import('../queue/serve-queue.ts')
    return serveQueue(spec, flags.redis, flags)
  }
  if (flags.workers !== undefined) return serveWorkflow(spec, flags)
  assertWorkerFlags(flags)
  const loaded = await loadEntrypoint(spec)
  if (loaded.kind === 'workflow') return serveWorkflow(loaded, flags)
  const foreign = flags.admissionStatus === undefined ? flags.run && '--run' : '--admission-status'
  if (!foreign) return serveAgentLoop(loaded, flags)
  throw invalid(`${foreign} is for workflows, and ${loaded.file} exports an agent loop.`)
}

/** @throws OsmosisError with code `invalid_config` for limits of workers that there are none of */
export function assertWorkerFlags(flags: ProcessFlags): void {
  if (flags.workers !== undefined) return
  const { stallTimeout, progressTimeout, workerMemory } = flags
  if ([stallTimeout, progressTimeout, workerMemory].every((limit) => limit === undefined)) return
  throw invalid(
    '--stall-timeout, --progress-timeout and --worker-memory are limits of workers: pass --workers as well.',
  )
}

/** @throws OsmosisError with code `invalid_config` for flags about rollouts that are not served */
function assertRunFlags({ run, reward, groupColumn, groupSize }: ServeFlags): void {
  if (!run && [reward, groupColumn, groupSize].some((flag) => flag !== undefined)) {
    throw invalid(
      '--reward, --group-column and --group-size are about POST /run: pass --run as well.',
    )
  }
  if (groupSize !== undefined && groupColumn === undefined) {
    throw invalid('--group-size is about groups: say with --group-column what names them.')
  }
}

/** @throws OsmosisError with code `invalid_config` where every rollout of `POST /run` would fail */
function assertGroupsAreNamed(
  { run, groupSize }: ServeFlags,
  { file, groupMinSize }: WorkflowFacts,
): void {
  if (!run || groupMinSize === null || groupSize !== undefined) return
  throw invalid(
    `The grader of ${file} compares the attempts at a row: say with --group-column and --group-size which rollouts of POST /run are attempts at the same one.`,
  )
}

/** @param what - a workflow that is loaded, or how it is named when workers are to load it */
async function serveWorkflow(
  what: { entrypoint: Entrypoint; file: string } | string,
  flags: ServeFlags,
): Promise<void> {
  const settings = readServerEnvironment(environment())
  const apiKey = serverKeys(flags, settings.apiKey)
  const options = { artifactRoot: settings.artifactRoot, egress: egressOf(flags) }
  const logger = commandLogger(flags)
  let server: RolloutServer | undefined
  const onWorkerEnd = ({ pid, what: happened, rollouts, restartMs }: WorkerEnd): void => {
    const line = { pid, rollouts, restart_ms: restartMs }
    const log = server?.logger ?? logger
    log.warn(line, `a worker ended: ${happened}`)
  }
  const served =
    typeof what === 'string'
      ? await workflowInWorkers({ spec: what, ...options }, flags, onWorkerEnd)
      : localWorkflow(what, options)
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
      outboxDir: flags.outbox && namedHere(flags.outbox),
      drainSeconds: flags.drainTimeout,
      admissionStatus: flags.admissionStatus,
      trajectories: flags.trajectories,
      run: flags.run === true && runOptions(flags),
    })
    const lines = flags.run ? [aboutRun] : []
    await openWorkflowPort(server, served, { flags, port: settings.port, lines })
  } catch (error) {
    await close()
    throw error
  }
}

function runOptions({ reward, groupColumn, groupSize }: ServeFlags): RunOptions {
  return { reward, groupColumn, groupSize }
}

/** What whoever trains over `POST /run` has to know before the first step. */
const aboutRun =
  'Rollouts of POST /run that fail are trained with reward 0 unless the trainer drops their groups: docs/serving.md has the filter'

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
