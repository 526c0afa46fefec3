import { BlockList, isIP, isIPv6 } from 'node:net'

import {
  checkRegistration,
  type AgentLoopApp,
  type Registration,
  type RegistrationOptions,
} from '@osmosis/agent-loop'
import { errorMessage, OsmosisError } from '@osmosis/core'

import type { ServeFlags } from './serve.ts'
import { environment, homeFolder, printOut, workingFolder } from '../command/surroundings.ts'

/** Addresses on which a server can listen, but where no other machine reaches it. */
const unreachable = new BlockList()
unreachable.addSubnet('127.0.0.0', 8)
unreachable.addSubnet('0.0.0.0', 8)
unreachable.addAddress('::', 'ipv6')
unreachable.addAddress('::1', 'ipv6')

/** What is known of a registration before the server listens. */
export type PlannedRegistration = Pick<RegistrationOptions, 'host' | 'token' | 'platformUrl'>

/** @throws OsmosisError with code `invalid_config` for flags that do not fit together */
export function assertRegistrationFlags(flags: ServeFlags): void {
  const { register, publicHost, publicPort } = flags
  if (!register) {
    if (publicHost === undefined && publicPort === undefined) return
    throw invalid(
      '--public-host and --public-port say what is registered: pass --register as well.',
    )
  }
  if (!flags.auth) {
    throw invalid(
      '--register and --no-auth exclude each other: the platform presents the key of a server when it asks for its health.',
    )
  }
  if (publicPort !== undefined && (publicPort < 1 || publicPort > 65_535)) {
    throw invalid(`--public-port must be a port number from 1 to 65535, got ${publicPort}.`)
  }
}

/**
 * Finds out what `--register` is about, so that a mistake is known before anything is served.
 * Undefined without the flag.
 *
 * @throws OsmosisError with code `invalid_config` or `unauthorized`
 */
export async function planRegistration(
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
  const { activeLogin, CredentialsFile, LoginStore, readPlatformSettings } =
    await import('@osmosis/platform')
  const settings = await readPlatformSettings({
    environment: environment(),
    folder: workingFolder(),
  })
  const { token } = await activeLogin(
    settings,
    new LoginStore({ file: CredentialsFile.ofHome(homeFolder()) }),
  )
  const planned = { host, platformUrl: settings.url, token }
  checkRegistration(planned)
  return planned
}

/**
 * Registers a server that listens, in the background, and prints what came of it. Whatever that
 * is, the server goes on.
 */
export function announceRegistration(app: AgentLoopApp, options: RegistrationOptions): void {
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
 * The host under which others reach the server: the one that was named, else the one it listens
 * on. Nobody outside is asked: they would name the way out of this network, not the way in.
 *
 * @throws OsmosisError with code `invalid_config` when neither can be
 */
function reachableHost({ publicHost, host }: Pick<ServeFlags, 'publicHost' | 'host'>): string {
  if (publicHost !== undefined) return publicHost
  if (!isUnreachable(host)) return host
  throw invalid(
    `No other machine reaches the server as ${host}. Say with --public-host under which name or address the platform does.`,
  )
}

/** Whether no other machine reaches what listens on a host, or whoever is there. */
export function isUnreachable(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host.toLowerCase() === 'localhost'
  return unreachable.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
