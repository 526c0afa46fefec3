import { OsmosisError, type Entrypoint } from '@osmosis/core'
import {
  createRolloutServer,
  createStderrLogger,
  readServerEnvironment,
  serve,
  type RolloutServer,
} from '@osmosis/server'
import type { WorkerEnd } from '@osmosis/workers'

import { completeEnvironment } from '../environment.ts'
import { answerMetadataChecks } from '../metadata-check/metadata-channel.ts'
import { announceListening } from '../server-channel.ts'
import { loadEntrypoint } from './load-entrypoint.ts'
import { assertRegistrationFlags } from './registration.ts'
import { serveAgentLoop } from './serve-agent-loop.ts'
import { egressOf, type ServeFlags } from './serve-options.ts'
import { localWorkflow, type WorkflowFacts } from './served-workflow.ts'
import { workflowInWorkers } from './workflow-in-workers.ts'
import { followKeyFile, serverKeys } from './server-keys.ts'

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
  completeEnvironment()
  if (flags.workers !== undefined) return serveWorkflow(spec, flags)
  assertWorkerFlags(flags)
  const loaded = await loadEntrypoint(spec)
  if (loaded.kind === 'workflow') return serveWorkflow(loaded, flags)
  if (flags.admissionStatus === undefined) return serveAgentLoop(loaded, flags)
  throw invalid(`--admission-status is for workflows, and ${loaded.file} exports an agent loop.`)
}

function assertWorkerFlags({ stallTimeout, workerMemory }: ServeFlags): void {
  if (stallTimeout === undefined && workerMemory === undefined) return
  throw invalid(
    '--stall-timeout and --worker-memory are limits of workers: pass --workers as well.',
  )
}

/** @param what - a workflow that is loaded, or how it is named when workers are to load it */
async function serveWorkflow(
  what: { entrypoint: Entrypoint; file: string } | string,
  flags: ServeFlags,
): Promise<void> {
  const environment = readServerEnvironment()
  const apiKey = serverKeys(flags, environment.apiKey)
  const options = { artifactRoot: environment.artifactRoot, egress: egressOf(flags) }
  const logger = createStderrLogger({ level: flags.logLevel, format: flags.logFormat })
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
  const { backend, facts, check, close } = served
  try {
    assertWorkflowFlags(flags, facts.file)
    server = createRolloutServer({
      logger,
      backend,
      apiKey,
      instanceId: environment.instanceId,
      ownership: environment.ownership,
      outboxDir: flags.outbox,
      drainSeconds: flags.drainTimeout,
      admissionStatus: flags.admissionStatus,
      trajectories: flags.trajectories,
    })
    followKeyFile(server, flags.apiKeyFile)
    const listening = await serve(server, {
      port: flags.port ?? environment.port,
      host: flags.host,
      allowUnauthenticated: !flags.auth,
    })
    listening.closed.then(close).catch(() => {})
    process.stdout.write(servingText(facts, listening.url, apiKey !== undefined))
    answerMetadataChecks(check)
    const { hasSchema, isConfigured, graderSlots } = facts
    announceListening(listening, { kind: 'workflow', hasSchema, isConfigured, graderSlots })
  } catch (error) {
    await close()
    throw error
  }
}

function servingText(
  { workflow, file, grader }: WorkflowFacts,
  url: string,
  asksKey: boolean,
): string {
  return (
    `Serving ${workflow} of ${file} (${grader ?? 'no grader: rollouts get no reward'})\n` +
    `Listening on ${url} (${asksKey ? 'with a bearer key' : 'open, no key asked for'})\n`
  )
}

function assertWorkflowFlags({ register, log, validate }: ServeFlags, file: string): void {
  const foreign = [
    register && '--register',
    log !== undefined && '--log',
    !validate && '--no-validate',
  ]
  const [flag] = foreign.filter((name) => typeof name === 'string')
  if (flag === undefined) return
  throw invalid(`${flag} is for agent loops, and ${file} exports an AgentWorkflow.`)
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
