import path from 'node:path'

import { discoverEntrypoint, LocalBackend, OsmosisError } from '@osmosis/core'
import { createRolloutServer, readServerEnvironment, serve } from '@osmosis/server'

import { loadModule } from '../load-module.ts'
import { announceListening } from '../server-channel.ts'
import { assertRegistrationFlags } from './registration-flags.ts'
import { serveAgentLoop } from './serve-agent-loop.ts'
import type { ServeFlags } from './serve-flags.ts'

/**
 * Serves the rollouts of an entrypoint, or those of an agent loop, until a signal ends the
 * process.
 *
 * @throws OsmosisError with code `invalid_config` unless exactly one of them is named, and for flags
 * that do not fit together
 */
export async function serveCommand(
  entrypointFile: string | undefined,
  flags: ServeFlags,
): Promise<void> {
  if ((entrypointFile === undefined) === (flags.module === undefined)) {
    throw new OsmosisError(
      'invalid_config',
      'Name what to serve: an entrypoint with an AgentWorkflow, or an agent loop as -m <file>:<export>.',
    )
  }
  assertRegistrationFlags(flags)
  await (entrypointFile === undefined
    ? serveAgentLoop(flags)
    : serveEntrypoint(entrypointFile, flags))
}

async function serveEntrypoint(entrypointFile: string, flags: ServeFlags): Promise<void> {
  const environment = readServerEnvironment()
  const file = path.relative('', entrypointFile) || entrypointFile
  const entrypoint = discoverEntrypoint(await loadModule('entrypoint', entrypointFile), file)
  const apiKey = flags.auth ? (flags.apiKey ?? environment.apiKey) : undefined

  const server = createRolloutServer({
    backend: new LocalBackend({ ...entrypoint, artifactRoot: environment.artifactRoot }),
    apiKey,
    instanceId: environment.instanceId,
    outboxDir: flags.outbox,
  })
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
  announceListening(listening)
}
