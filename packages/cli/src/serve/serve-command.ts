import path from 'node:path'

import { discoverEntrypoint, LocalBackend } from '@osmosis/core'
import { createRolloutServer, readServerEnvironment, serve } from '@osmosis/server'

import { loadModule } from '../load-module.ts'
import { announceListening } from '../server-channel.ts'

/** Flags of `osmosis serve`. */
export interface ServeFlags {
  port?: number
  host: string
  apiKey?: string
  /** False with `--no-auth`. */
  auth: boolean
}

/** Serves the rollouts of an entrypoint until a signal ends the process. */
export async function serveCommand(entrypointFile: string, flags: ServeFlags): Promise<void> {
  const environment = readServerEnvironment()
  const file = path.relative('', entrypointFile) || entrypointFile
  const entrypoint = discoverEntrypoint(await loadModule('entrypoint', entrypointFile), file)
  const apiKey = flags.auth ? (flags.apiKey ?? environment.apiKey) : undefined

  const server = createRolloutServer({
    backend: new LocalBackend({ ...entrypoint, artifactRoot: environment.artifactRoot }),
    apiKey,
    instanceId: environment.instanceId,
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
