import { randomUUID } from 'node:crypto'
import { isIPv6 } from 'node:net'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  bearer,
  createTransport,
  isTransientStatus,
  retryRequest,
  withTimeLimit,
  parseJson,
} from '@osmosis/core/http'
import { boundedText, SecretValues, shortestSecret } from '@osmosis/protocol/http'
import type { Logger } from '@osmosis/server'
import { z } from 'zod'

/** The server to register, and the login token. */
export interface RegistrationOptions {
  /** Name or address under which the platform and its trainers reach the server; not a URL. */
  host: string
  /** Port on which they reach it. */
  port: number
  /** Login token of the platform. It is sent to the platform only. */
  token: string
  /** Base URL of the platform; default `https://platform.osmosis.ai`. */
  platformUrl?: string | undefined
  /** Stops retrying when it aborts; a drain of the app does so as well. */
  signal?: AbortSignal | undefined
}

const defaultPlatformUrl = 'https://platform.osmosis.ai'
const route = '/api/cli/rollout-server/register'

/**
 * Checks the options that are known before the server listens. `register` of the app repeats the check.
 *
 * @throws OsmosisError with code `invalid_config`; its message does not contain the token
 */
export function checkRegistration(
  options: Pick<RegistrationOptions, 'host' | 'token' | 'platformUrl'>,
): void {
  const { host, token, platformUrl } = options
  // A token can be sent in a header; the content of a file with a line break at its end cannot.
  if (typeof token !== 'string' || !/^[\x21-\x7E]+$/.test(token)) {
    throw invalid(
      'A registration needs a login token of the platform: text of visible ASCII characters, without spaces or line breaks.',
    )
  }
  if (typeof host !== 'string' || !(isIPv6(host) || /^[\p{L}\p{N}._-]+$/u.test(host))) {
    throw invalid(
      `A registration needs the host under which the platform reaches the server: a name or an address without scheme, port and path. Got ${JSON.stringify(host)}.`,
    )
  }
  if (host === '0.0.0.0' || host === '::') {
    throw invalid(
      `A server can listen on ${host}, but not be reached at that address. Register the name or address that others use for this machine.`,
    )
  }
  registrationUrl(platformUrl)
}

/** The server that is registered. */
export interface RegisteredServer {
  readonly agentLoopName: string
  /** The key that callers must present; the platform needs it for `/platform/health`. */
  readonly apiKey: string | undefined
  readonly logger: Logger
  /** Aborts when the server begins to end. */
  readonly signal: AbortSignal
}

/** The platform requests the health of the server before it answers. */
const attemptMs = 15_000
const retries = { retries: 3, minDelayMs: 500, maxDelayMs: 10_000, totalMs: 60_000 }
/** Bytes. */
const maxAnswerBytes = 1024 * 1024
/** Replaces an answer that is too long, and is reported like any other invalid answer. */
const tooLong = `more than ${maxAnswerBytes} bytes`
const platform = createTransport({
  name: 'platform',
  codes: { unreachable: 'platform_unreachable', refused: 'protocol_error' },
})

/** Registers a server with the platform; see `register` of the app. */
export async function registerServer(
  options: RegistrationOptions,
  { agentLoopName, apiKey, logger, signal: ending }: RegisteredServer,
): Promise<Registration> {
  checkRegistration(options)
  const { host, port, token } = options
  checkRegisteredPort(port)
  const url = registrationUrl(options.platformUrl)
  const redactor = new Redactor(token, apiKey)
  const request = {
    headers: {
      'content-type': 'application/json',
      accept: 'application/json',
      'user-agent': 'osmosis-agent-loop',
      ...bearer(token),
      // Lets the platform recognise a retry.
      'idempotency-key': randomUUID(),
    },
    body: JSON.stringify({ host, port, agent_loop_name: agentLoopName, api_key: apiKey }),
    // No further request follows.
    closeConnection: true,
  }
  const outer = AbortSignal.any([ending, ...(options.signal ? [options.signal] : [])])
  const late = (): Error =>
    new OsmosisError('timeout', `The platform ${url} gave no answer in ${attemptMs / 1000} s.`)
  const attempt = async (signal: AbortSignal): Promise<Registration> => {
    let text: string
    try {
      const answer = await platform.post(url, { ...request, signal })
      text = (await boundedText(answer.body, maxAnswerBytes)) ?? tooLong
    } catch (error) {
      throw toRegistrationError(error, url, redactor)
    }
    return readRegistration(text, url, redactor)
  }
  return retryRequest(async () => withTimeLimit({ limitMs: attemptMs, outer, late }, attempt), {
    ...retries,
    signal: outer,
    isRetryable: (error) => {
      if (!isTransient(error)) return false
      logger.info({ reason: errorMessage(error) }, 'not registered yet; retrying')
      return true
    },
  })
}

/** @throws OsmosisError with code `invalid_config` */
function checkRegisteredPort(port: number): void {
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return
  throw invalid(
    `A registration needs the port on which the platform reaches the server, from 1 to 65535, got ${port}.`,
  )
}

/** The URL for registrations. Keeps a base path of the platform. */
function registrationUrl(platformUrl: string = defaultPlatformUrl): string {
  const url = URL.canParse(platformUrl) ? new URL(platformUrl) : undefined
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
  if (url === undefined || !isHttp || url.username !== '' || url.password !== '') {
    // The value may contain credentials, so it is not repeated.
    throw invalid(
      'platformUrl (OSMOSIS_PLATFORM_URL) must be an http or https URL without credentials.',
    )
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}${route}`
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}

/** The platform's answer to a registration. */
export interface Registration {
  /** Id of the registration; null when the platform gave none. */
  readonly id: string | null
  /** `healthy`, or another status of the platform; `unknown` when it sent none. */
  readonly status: string
  /** Why the platform's health check of the server failed; null when it is healthy. */
  readonly error: string | null
}

// The server is registered whatever the answer contains, so the answer only has to be an object.
const answerSchema = z.object({
  id: z.union([z.string(), z.number()]).nullish().catch(null),
  status: z.string().min(1).nullish().catch(null),
  health_check_result: z
    .object({ error: z.string().min(1).nullish().catch(null) })
    .nullish()
    .catch(null),
})

/**
 * Reads the answer to a registration.
 *
 * @throws OsmosisError with code `protocol_error` when it is not a JSON object
 */
function readRegistration(text: string, url: string, redactor: Redactor): Registration {
  const answer = answerSchema.safeParse(parseJson(text))
  if (!answer.success) {
    throw new OsmosisError(
      'protocol_error',
      `The platform ${url} should answer a registration with a JSON object, got: ${redactor.quote(text.slice(0, 200)) || 'nothing'}`,
    )
  }
  const { id, status, health_check_result: check } = answer.data
  return {
    id: id === null || id === undefined ? null : redactor.quote(String(id)),
    status: redactor.quote(status ?? 'unknown'),
    error: status === 'healthy' ? null : redactor.quote(check?.error ?? 'Health check failed'),
  }
}

/** Converts a failed request to the platform to an error with advice and without secrets. */
function toRegistrationError(error: unknown, url: string, redactor: Redactor): OsmosisError {
  if (!isOsmosisError(error)) {
    return new OsmosisError(
      'platform_unreachable',
      `The connection closed during the answer of the platform ${url}: ${redactor.quote(errorMessage(error))}`,
      { cause: error },
    )
  }
  const { status, retryAfterMs } = error
  // What the platform said may end within a secret: the address behind it is set apart.
  const [place = ''] = / \(\S+\)$/.exec(error.message) ?? []
  const message = redactor.quote(error.message.slice(0, error.message.length - place.length))
  if (status === undefined) {
    return new OsmosisError('platform_unreachable', `${message}${place}`, { cause: error.cause })
  }
  const code = status === 401 || status === 403 ? 'unauthorized' : 'protocol_error'
  const advice = hint(status)
  const sentence = advice === '' ? message : `${message.replace(/\.$/, '')}. ${advice}`
  return new OsmosisError(code, `${sentence}${place}`, { status, retryAfterMs })
}

/** Whether a retry may succeed. */
function isTransient(error: unknown): boolean {
  if (!isOsmosisError(error)) return false
  const { code, status = 0 } = error
  if (code === 'timeout' || code === 'platform_unreachable') return true
  return isTransientStatus(status)
}

function hint(status: number): string {
  if (status === 401) return 'The login token is wrong or has expired: log in again.'
  if (status === 403) return 'The owner of the login token may not register servers there.'
  if (status === 404) return 'Check platformUrl (OSMOSIS_PLATFORM_URL).'
  if (status < 400) return 'Redirects are not followed: platformUrl has to be the final address.'
  return ''
}

/** Characters: longer than a sentence, shorter than a page. */
const maxLength = 1000

/** Makes texts of the platform safe to show: they may repeat the token and the key that it received. */
class Redactor {
  readonly #values = new SecretValues()

  constructor(...secrets: readonly (string | undefined)[]) {
    this.#values.add(...secrets)
  }

  /** `text` on one line, without the secrets in it. */
  quote(text: string): string {
    const whole = this.#values.redact(text)
    // A long answer is cut, possibly inside a secret.
    const end = this.#values.settledLength(whole)
    const clean = whole.length - end < shortestSecret ? whole : `${whole.slice(0, end)}[redacted]`
    return clean
      .replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
      .trim()
      .slice(0, maxLength)
  }
}
