import { isIPv6 } from 'node:net'

import { OsmosisError } from '@osmosis/core'

/** What the platform is told about a server, and who tells it. */
export interface RegistrationOptions {
  /** Name or address under which the platform and its trainers reach the server; no URL. */
  host: string
  /** Port on which they reach it. */
  port: number
  /** Login token of the platform. It goes to the platform and nowhere else. */
  token: string
  /** Base URL of the platform; default `https://platform.osmosis.ai`. */
  platformUrl?: string | undefined
  /** Gives up when it aborts; so does a drain of the app. */
  signal?: AbortSignal | undefined
}

const defaultPlatformUrl = 'https://platform.osmosis.ai'
const route = '/api/cli/rollout-server/register'

/**
 * Checks what is known of a registration before the server listens. `register` of the app checks
 * the same.
 *
 * @throws OsmosisError with code `invalid_config`; it repeats no token
 */
export function checkRegistration(
  options: Pick<RegistrationOptions, 'host' | 'token' | 'platformUrl'>,
): void {
  const { host, token, platformUrl } = options
  // What cannot stand in a header was never a token, such as a file with a line break behind it.
  if (typeof token !== 'string' || !/^[\x21-\x7E]+$/.test(token)) {
    throw invalid(
      'A registration needs a login token of the platform: text of visible ASCII characters, without spaces or line breaks.',
    )
  }
  if (typeof host !== 'string' || !(isIPv6(host) || /^[\p{L}\p{N}._-]+$/u.test(host))) {
    throw invalid(
      `A registration needs the host under which the platform reaches the server: a name or an address without scheme, port and path, got ${JSON.stringify(host)}.`,
    )
  }
  if (host === '0.0.0.0' || host === '::') {
    throw invalid(
      `A server listens on ${host}, but nobody reaches it there. Register the name or address that others use for this machine.`,
    )
  }
  registrationUrl(platformUrl)
}

/** @throws OsmosisError with code `invalid_config` */
export function checkRegisteredPort(port: number): void {
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return
  throw invalid(
    `A registration needs the port on which the platform reaches the server, from 1 to 65535, got ${port}.`,
  )
}

/** Where servers register. A base path of the platform is kept. */
export function registrationUrl(platformUrl: string = defaultPlatformUrl): string {
  const url = URL.canParse(platformUrl) ? new URL(platformUrl) : undefined
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
  if (url === undefined || !isHttp || url.username !== '' || url.password !== '') {
    // The value may hold credentials, so it is not repeated.
    throw invalid(
      'platformUrl (OSMOSIS_PLATFORM_URL) must be an http or https URL without credentials.',
    )
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}${route}`
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
