import { LocalBackend, OsmosisError, type Entrypoint } from '@osmosis/core'
import { createRolloutServer, readServerEnvironment, serve } from '@osmosis/server'

import { completeEnvironment } from '../environment.ts'
import { answerMetadataChecks } from '../metadata-check/metadata-channel.ts'
import { announceListening } from '../server-channel.ts'
import { loadEntrypoint } from './load-entrypoint.ts'
import { assertRegistrationFlags } from './registration.ts'
import { serveAgentLoop } from './serve-agent-loop.ts'
import { egressOf, type ServeFlags } from './serve-options.ts'
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
  const loaded = await loadEntrypoint(spec)
  if (loaded.kind === 'agent-loop') {
    if (flags.admissionStatus === undefined) return serveAgentLoop(loaded, flags)
    throw invalid(`--admission-status is for workflows, and ${loaded.file} exports an agent loop.`)
  }
  const { register, log, validate } = flags
  const foreign = [
    register && '--register',
    log !== undefined && '--log',
    !validate && '--no-validate',
  ]
  const [flag] = foreign.filter((name) => typeof name === 'string')
  if (flag !== undefined) {
    throw invalid(`${flag} is for agent loops, and ${loaded.file} exports an AgentWorkflow.`)
  }
  return serveWorkflow(loaded, flags)
}

async function serveWorkflow(
  { entrypoint, file }: { entrypoint: Entrypoint; file: string },
  flags: ServeFlags,
): Promise<void> {
  const environment = readServerEnvironment()
  const apiKey = serverKeys(flags, environment.apiKey)

  const server = createRolloutServer({
    backend: new LocalBackend({
      ...entrypoint,
      artifactRoot: environment.artifactRoot,
      egress: egressOf(flags),
    }),
    apiKey,
    instanceId: environment.instanceId,
    outboxDir: flags.outbox,
    admissionStatus: flags.admissionStatus,
    trajectories: flags.trajectories,
  })
  followKeyFile(server, flags.apiKeyFile)
  const listening = await serve(server, {
    port: flags.port ?? environment.port,
    host: flags.host,
    allowUnauthenticated: !flags.auth,
  })

  const grader = entrypoint.grader?.name ?? 'no grader: rollouts get no reward'
  process.stdout.write(
    `Serving ${entrypoint.workflow.name} of ${file} (${grader})\n` +
      `Listening on ${listening.url} (${apiKey === undefined ? 'open, no key asked for' : 'with a bearer key'})\n`,
  )
  const { workflowConfig } = entrypoint
  answerMetadataChecks(workflowConfig)
  announceListening(listening, {
    kind: 'workflow',
    hasSchema: workflowConfig?.metadata !== undefined,
    isConfigured: workflowConfig !== undefined,
  })
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
