import { invalid } from '../command/exit-codes.ts'
import { BlockList, isIP, isIPv6 } from 'node:net'
import path from 'node:path'

import {
  checkRegistration,
  createApp,
  type AgentLoopApp,
  type Registration,
  type RegistrationOptions,
} from '@osmosis/agent-loop'
import { errorMessage } from '@osmosis/core'
import { readServerEnvironment } from '@osmosis/server'

import { egressOf } from '../command/flags.ts'
import { environment, displayPath, printOut } from '../command/command-context.ts'
import { checkAgentLoop, type LoadedAgentLoop } from '../inputs/load-entrypoint.ts'
import { commandLogger, listen, followKeyFile, serverKeys } from './listen.ts'
import type { ServeFlags } from './serve.ts'
import type { ServedEntrypoint } from '../child/served-workflow.ts'

const defaultPort = 9000

/** Serves an agent loop until a signal ends the process. */
export async function serveAgentLoop(
  { loop, file }: LoadedAgentLoop,
  flags: ServeFlags,
): Promise<ServedEntrypoint> {
  const settings = readServerEnvironment(environment(), defaultPort)
  const keys = serverKeys(flags, settings.apiKey)
  const registration = await planRegistration(flags, keys?.[0])
  await checkAgentLoop(loop)
  // A folder for each start, named by its time.
  const traces =
    flags.log === undefined
      ? undefined
      : path.join(displayPath(flags.log), String(Math.floor(Date.now() / 1000)))
  const app = createApp(loop, {
    apiKey: keys,
    debugDir: traces,
    logger: commandLogger(flags),
    outboxDir: flags.outbox && displayPath(flags.outbox),
    drainSeconds: flags.drainTimeout,
    egress: egressOf(flags),
    ownership: settings.ownership,
  })
  const { host, auth } = flags
  const listening = await listen(app, { port: flags.port ?? settings.port, host, auth })
  printOut(
    `Serving the agent loop ${loop.name} of ${file}\n` +
      (traces === undefined ? '' : `Writing traces to ${traces}\n`) +
      `Listening on ${listening.url} (${keys === undefined ? 'open, no key required' : 'with a bearer key'})\n`,
  )
  followKeyFile(app, flags.apiKeyFile)
  if (registration !== undefined) {
    const port = flags.publicHost?.port ?? listening.port
    announceRegistration(app, { ...registration, port })
  }
  return {
    url: listening.url,
    facts: {
      kind: 'agent-loop',
      hasSchema: false,
      isConfigured: false,
      // Each request limits its turns.
      limitsCalls: true,
      // A loop sets its own reward.
      hasGrader: true,
      groupMinSize: null,
    },
    check: async (rows) => rows.map(() => []),
    closed: listening.closed,
    close: () => listening.close(),
  }
}

/** Addresses of servers that other machines cannot reach. */
const unreachable = new BlockList()
unreachable.addSubnet('127.0.0.0', 8)
unreachable.addSubnet('0.0.0.0', 8)
unreachable.addAddress('::', 'ipv6')
unreachable.addAddress('::1', 'ipv6')

/** The registration, without the port on which the server will listen. */
type PlannedRegistration = Pick<RegistrationOptions, 'host' | 'token' | 'platformUrl'>

/**
 * Prepares `--register`, so that a mistake is reported before anything is served. Undefined without the
 * flag.
 *
 * @throws OsmosisError with code `invalid_config` or `unauthorized`
 */
async function planRegistration(
  flags: ServeFlags,
  apiKey: string | undefined,
): Promise<PlannedRegistration | undefined> {
  if (!flags.register) return undefined
  if (apiKey === undefined) {
    throw invalid(
      '--register needs a key, which the platform presents when it asks for the health of the server: pass --api-key, or set OSMOSIS_ROLLOUT_SERVER_API_KEY.',
    )
  }
  const host = reachableHost(flags)
  const { platformLogin } = await import('../platform/session/platform-session.ts')
  const { url: platformUrl, token } = await platformLogin()
  const planned = { host, platformUrl, token }
  checkRegistration(planned)
  return planned
}

/**
 * Registers a listening server in the background, and prints the result. The server continues in any case.
 */
function announceRegistration(app: AgentLoopApp, options: RegistrationOptions): void {
  const { host, port } = options
  const place = `${isIPv6(host) ? `[${host}]` : host}:${port}`
  app.register(options).then(
    (registration) => printOut(`${registered(registration, place)}\n`),
    (error: unknown) => printOut(`Could not register with the platform: ${errorMessage(error)}\n`),
  )
}

function registered({ id, status, error }: Registration, place: string): string {
  const said = `Registered with the platform${id === null ? '' : ` as ${id}`}, at ${place}`
  return error === null
    ? said
    : `${said}, but the platform's health check failed (${status}): ${error}`
}

/**
 * The host under which the platform reaches the server: --public-host, else the address it listens on. An
 * external service does not know it: it sees the address of outgoing connections.
 *
 * @throws OsmosisError with code `invalid_config` when the platform cannot reach it
 */
function reachableHost({ publicHost, host }: Pick<ServeFlags, 'publicHost' | 'host'>): string {
  if (publicHost !== undefined) return publicHost.host
  if (!isUnreachable(host)) return host
  throw invalid(
    `Other machines cannot reach the server at ${host}. Pass --public-host with the name or address under which the platform reaches it.`,
  )
}

/** Whether other machines cannot reach a server that listens on this host. */
export function isUnreachable(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host.toLowerCase() === 'localhost'
  return unreachable.check(host, family === 6 ? 'ipv6' : 'ipv4')
}
