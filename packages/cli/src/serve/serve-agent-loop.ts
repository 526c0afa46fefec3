import path from 'node:path'

import { createApp } from '@osmosis/agent-loop'
import { readServerEnvironment, serve } from '@osmosis/server'

import { checkAgentLoop } from '../agent-loop/check-agent-loop.ts'
import type { LoadedAgentLoop } from '../inputs/load-agent-loop.ts'
import { announceListening } from './server-channel.ts'
import { announceRegistration, planRegistration } from './registration.ts'
import { egressOf } from '../command/flags.ts'
import type { ServeFlags } from './serve.ts'
import { followKeyFile, serverKeys } from './server-keys.ts'
import { endSignal, environment, namedHere, printOut } from '../command/surroundings.ts'
import { commandLogger, serverEnd } from './server-end.ts'

const defaultPort = 9000

/** Serves an agent loop until a signal ends the process. */
export async function serveAgentLoop(
  { loop, file }: LoadedAgentLoop,
  flags: ServeFlags,
): Promise<void> {
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
