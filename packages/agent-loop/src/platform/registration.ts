import { randomUUID } from 'node:crypto'
import { isIPv6 } from 'node:net'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { bearer, createTransport, retryRequest, withTimeLimit } from '@osmosis/core/http'
import { boundedText } from '@osmosis/runtime/http'
import type { Logger } from '@osmosis/server'

import {
  isPassing,
  PlatformWords,
  readRegistration,
  toRegistrationError,
  type Registration,
} from './platform-answer.ts'

/** What is registered with the platform, and with whose token. */
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
      `A server listens on ${host}, but it cannot be reached by that address. Register the name or address that others use for this machine.`,
    )
  }
  registrationUrl(platformUrl)
}

/** The server that is registered. */
export interface RegisteredServer {
  readonly agentLoopName: string
  /** What callers have to present; the platform needs it for `/platform/health`. */
  readonly apiKey: string | undefined
  readonly logger: Logger
  /** Aborts when the server begins to end. */
  readonly signal: AbortSignal
}

/** The platform asks the server for its health before it answers. */
const attemptMs = 15_000
const tries = { retries: 3, minDelayMs: 500, maxDelayMs: 10_000, totalMs: 60_000 }
/** Bytes. */
const longestAnswer = 1024 * 1024
/** Stands for an answer that no platform gives, and is complained about like any other. */
const tooLong = `more than ${longestAnswer} bytes`
const platform = createTransport({
  name: 'platform',
  codes: { unreachable: 'platform_unreachable', refused: 'protocol_error' },
})

/** One request, the same on every try. */
interface RegistrationRequest {
  readonly url: string
  readonly headers: Record<string, string>
  readonly body: string
}

/** Registers a server with the platform; see `register` of the app. */
export async function registerServer(
  options: RegistrationOptions,
  server: RegisteredServer,
): Promise<Registration> {
  checkRegistration(options)
  checkRegisteredPort(options.port)
  const signals = [server.signal, ...(options.signal ? [options.signal] : [])]
  const signal = AbortSignal.any(signals)
  const words = new PlatformWords(options.token, server.apiKey)
  const request = toRequest(options, server)
  return retryRequest(async () => attempt(request, signal, words), {
    ...tries,
    signal,
    isRetryable: (error) => {
      if (!isPassing(error)) return false
      server.logger.info({ reason: errorMessage(error) }, 'not registered yet; trying again')
      return true
    },
  })
}

function toRequest(
  { host, port, token, platformUrl }: RegistrationOptions,
  { agentLoopName, apiKey }: RegisteredServer,
): RegistrationRequest {
  return {
    url: registrationUrl(platformUrl),
    headers: {
      'content-type': 'application/json',
      accept: 'application/json',
      'user-agent': 'osmosis-agent-loop',
      ...bearer(token),
      // The platform can see that a second try is no second server.
      'idempotency-key': randomUUID(),
    },
    body: JSON.stringify({ host, port, agent_loop_name: agentLoopName, api_key: apiKey }),
  }
}

async function attempt(
  { url, headers, body }: RegistrationRequest,
  outer: AbortSignal,
  words: PlatformWords,
): Promise<Registration> {
  const late = (): Error =>
    new OsmosisError('timeout', `The platform ${url} gave no answer in ${attemptMs / 1000} s.`)
  return withTimeLimit({ limitMs: attemptMs, outer, late }, async (signal) => {
    let said: string
    try {
      // There is nothing more to ask.
      const answer = await platform.post(url, { headers, body, signal, closeConnection: true })
      said = (await boundedText(answer.body, longestAnswer)) ?? tooLong
    } catch (error) {
      throw toRegistrationError(error, url, words)
    }
    return readRegistration(said, url, words)
  })
}

/** @throws OsmosisError with code `invalid_config` */
function checkRegisteredPort(port: number): void {
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return
  throw invalid(
    `A registration needs the port on which the platform reaches the server, from 1 to 65535, got ${port}.`,
  )
}

/** Where servers register. A base path of the platform is kept. */
function registrationUrl(platformUrl: string = defaultPlatformUrl): string {
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
