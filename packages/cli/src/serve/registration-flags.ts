import { checkRegistration, type RegistrationOptions } from '@osmosis/agent-loop'
import { OsmosisError } from '@osmosis/core'

import { readLoginToken } from './platform-login.ts'
import { reachableHost } from './reachable-host.ts'
import type { ServeFlags } from './serve-options.ts'

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
  const environment = process.env // oxlint-disable-line node/no-process-env
  const planned = {
    host: reachableHost(flags),
    platformUrl: environment['OSMOSIS_PLATFORM_URL'] || undefined,
    token: await readLoginToken(environment),
  }
  checkRegistration(planned)
  return planned
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
