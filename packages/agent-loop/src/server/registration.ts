import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { bearer, createTransport, retryRequest } from '@osmosis/core/http'
import type { Logger } from '@osmosis/server'

import { withTimeLimit } from '../chat/attempt-limit.ts'
import { readRegistration, type Registration } from './registration-answer.ts'
import { isPassing, toRegistrationError } from './registration-errors.ts'
import {
  checkRegisteredPort,
  checkRegistration,
  registrationUrl,
  type RegistrationOptions,
} from './registration-options.ts'
import { PlatformWords } from './registration-words.ts'

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
      said = await text(answer.body)
    } catch (error) {
      throw toRegistrationError(error, url, words)
    }
    return readRegistration(said, url, words)
  })
}
