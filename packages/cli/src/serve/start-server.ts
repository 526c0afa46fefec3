import path from 'node:path'

import { createApp } from '@osmosis/agent-loop'
import { OsmosisError } from '@osmosis/core'
import type { Entrypoint } from '@osmosis/runtime'
import {
  createRolloutServer,
  readServerEnvironment,
  type RolloutServer,
  type RunRouteOptions,
  serve,
} from '@osmosis/server'
import type { WorkerEnd } from '@osmosis/workers'

import { egressOf, type ProcessFlags } from '../command/flags.ts'
import { environment, namedHere, endSignal, printOut } from '../command/surroundings.ts'
import { disablePretenuring } from '../command/process.ts'
import { completeEnvironment } from '../inputs/environment.ts'
import { checkAgentLoop, loadEntrypoint, type LoadedAgentLoop } from '../inputs/load-entrypoint.ts'
import { assertRegistrationFlags, announceRegistration, planRegistration } from './registration.ts'
import type { ServeFlags } from './serve.ts'
import { localWorkflow, type WorkflowFacts, workflowInWorkers } from './served-workflow.ts'
import { announceListening } from './server-channel.ts'
import { commandLogger, serverEnd } from './server-end.ts'
import { awaitKeyFile, serverKeys, followKeyFile } from './server-keys.ts'
import { assertWorkflowFlags, openWorkflowPort } from './workflow-port.ts'

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
  disablePretenuring()
  completeEnvironment()
  awaitKeyFile(flags.apiKeyFile)
  if (flags.redis !== undefined) return serveQueue(spec, flags.redis, flags)
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

function runOptions({ reward, groupColumn, groupSize }: ServeFlags): RunRouteOptions {
  return { reward, groupColumn, groupSize }
}

/** What whoever trains over `POST /run` has to know before the first step. */
const aboutRun =
  'Rollouts of POST /run that fail are trained with reward 0 unless the trainer drops their groups: docs/operating/serving.md has the filter'

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}

/** @throws OsmosisError with code `invalid_config` for flags of `serve` that do not fit together */
function assertQueueFlags(flags: ServeFlags): void {
  if (flags.redis === undefined) {
    const unfit = {
      '--redis-prefix': flags.redisPrefix,
      '--queue-key-file': flags.queueKeyFile,
      '--allow-plain-keys': flags.allowPlainKeys,
      '--code-version': flags.codeVersion,
      '--max-rollouts': flags.maxRollouts,
      '--max-queue-depth': flags.maxQueueDepth,
    }
    refuseOneOf(unfit, (flag) => `${flag} is about a queue: pass --redis as well.`)
    return
  }
  refuseOneOf(
    { '--outbox': flags.outbox },
    (flag) =>
      `${flag} and --redis exclude each other: the queue keeps accepted rollouts until their results are delivered.`,
  )
  refuseOneOf(
    { '--run': flags.run || undefined },
    (flag) =>
      `${flag} and --redis exclude each other: the answer of POST /run is its result, which ends with the server that was asked, and a queue keeps rollouts for longer. Serve it without a queue, with --workers for more processes.`,
  )
  const ofWorkers = {
    '--workers': flags.workers,
    '--stall-timeout': flags.stallTimeout,
    '--progress-timeout': flags.progressTimeout,
    '--worker-memory': flags.workerMemory,
  }
  refuseOneOf(
    ofWorkers,
    (flag) => `${flag} goes to osmosis worker: with --redis the server runs no rollouts.`,
  )
}

/** @throws OsmosisError with code `invalid_config` that says what is wrong with the first flag that is given */
export function refuseOneOf(
  flags: Readonly<Record<string, unknown>>,
  sentence: (flag: string) => string,
): void {
  const [given] = Object.entries(flags).filter(([, value]) => value !== undefined)
  if (given !== undefined) throw new OsmosisError('invalid_config', sentence(given[0]))
}

const defaultPort = 9000

/** Serves an agent loop until a signal ends the process. */
async function serveAgentLoop({ loop, file }: LoadedAgentLoop, flags: ServeFlags): Promise<void> {
  const settings = readServerEnvironment(environment(), defaultPort)
  const keys = serverKeys(flags, settings.apiKey)
  const registration = await planRegistration(flags, keys?.[0])
  if (flags.validate) await checkAgentLoop(loop)
  const traces = flags.log === undefined ? undefined : traceFolder(namedHere(flags.log))
  const app = createApp(loop, {
    apiKey: keys,
    debugDir: traces,
    logger: commandLogger(flags),
    outboxDir: flags.outbox && namedHere(flags.outbox),
    drainSeconds: flags.drainTimeout,
    egress: egressOf(flags),
    ownership: settings.ownership,
  })
  const listening = await serve(app, {
    port: flags.port ?? settings.port,
    host: flags.host,
    allowUnauthenticated: !flags.auth,
    ...serverEnd(),
  })
  printOut(
    `Serving the agent loop ${loop.name} of ${file}\n` +
      (traces === undefined ? '' : `Keeping traces in ${traces}\n`) +
      `Listening on ${listening.url} (${keys === undefined ? 'open, no key asked for' : 'with a bearer key'})\n`,
  )
  followKeyFile(app, flags.apiKeyFile)
  announceListening(listening, {
    kind: 'agent-loop',
    hasSchema: false,
    isConfigured: false,
    // A loop rewards itself.
    hasGrader: true,
    groupMinSize: null,
  })
  if (registration !== undefined) {
    announceRegistration(app, { ...registration, port: flags.publicPort ?? listening.port })
  }
  if (endSignal() !== undefined) await listening.closed
}

/** A folder for each start, named by its time. */
function traceFolder(root: string): string {
  return path.join(root, String(Math.floor(Date.now() / 1000)))
}

/**
 * Serves the rollouts of a workflow that workers of a queue run, until a signal ends the process. The
 * workflow is loaded to say what it is; nothing of it is run here.
 *
 * @param redis - the flag of that name
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `queue_unavailable` when the
 * Redis does not answer
 */
async function serveQueue(spec: string, redis: string, flags: ServeFlags): Promise<void> {
  const settings = readServerEnvironment(environment())
  const apiKey = serverKeys(flags, settings.apiKey)
  const { queueAccess, queuedWorkflow, shortCode, workersText } =
    await import('../worker/queue-access.ts')
  const loaded = queuedWorkflow(await loadEntrypoint(spec))
  assertWorkflowFlags(flags, loaded.file)
  const { queuePackage, connection, code, place } = await queueAccess(redis, flags, loaded.file)
  const { artifactRoot, instanceId, port } = settings
  const logger = commandLogger(flags)
  if (settings.ownership !== undefined) {
    logger.warn({}, 'ownership is not reported: every server of a queue has every rollout')
  }
  const egress = egressOf(flags)
  const { backend, facts, check } = localWorkflow(loaded, { artifactRoot, egress })
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
      admissionStatus: flags.admissionStatus,
    })
    const lines = [
      `Over ${place}, code ${shortCode(code)}: ${workersText(await queue.workers(), code)}`,
    ]
    await openWorkflowPort(server, { facts, check, close }, { flags, port, lines })
  } catch (error) {
    await close()
    throw error
  }
}
