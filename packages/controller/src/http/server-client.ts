import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  bearer,
  createTransport,
  parseJson,
  retryAfterMs,
  shownUrl,
  wait,
  withTimeLimit,
  type Transport,
} from '@osmosis/core/http'
import { boundedText } from '@osmosis/protocol/http'
import type { z } from 'zod'

const maxDetailLength = 500
/** Results have whole conversations. Bytes. */
const maxAnswerBytes = 256 * 1024 * 1024
/** Pauses before an order is sent again to a full server. Milliseconds. */
const pauses = { byDefault: 1000, min: 50, max: 60_000 }

/** A rollout server, or the server of an agent loop. */
export interface ServerAddress {
  /** Base URL; the routes of the protocol are appended. */
  readonly url: string
  /** Bearer key of the server. Default: none is sent. */
  readonly apiKey?: string
}

/** One request to a server: a POST, or a GET when it has no body. */
export interface ServerRequest {
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object
}

/** An answer that was read to its end. */
export interface ServerAnswer {
  readonly status: number
  /** How long the server asks to wait before the next request. Milliseconds; undefined without a value. */
  readonly retryAfterMs: number | undefined
  readonly text: string
}

/** A client of the servers that run rollouts. Redirects are not followed. */
export class ServerClient {
  readonly #transport: Transport = createTransport({
    name: 'rollout server',
    codes: { unreachable: 'protocol_error', refused: 'protocol_error' },
    // Servers in Python close idle connections after 5 s without notice. An order on such a connection
    // would be lost, and must not be sent again.
    keepAliveMs: 4000,
  })

  /**
   * Sends an order until the server accepts it. Retries while the server is full or draining (429, 503), after
   * its `Retry-After`. `onSend` runs before each attempt. Resolves with the text of the answer.
   *
   * @throws OsmosisError with code `unauthorized` or `protocol_error`, whose `cause` has the reason that the
   * server gave; the reason of `signal`
   */
  async order(
    server: ServerAddress,
    path: string,
    body: object,
    options: { signal: AbortSignal; onSend: () => void },
  ): Promise<string> {
    for (;;) {
      options.onSend()
      const answer = await this.send(server, { path, body }, options.signal)
      // Servers of the older protocol generation answer 200.
      if (answer.status === 202 || answer.status === 200) return answer.text
      if (answer.status !== 429 && answer.status !== 503) throw refusal(path, answer)
      await wait(pauseMs(answer), options.signal)
    }
  }

  /**
   * Asks a rollout server to stop a rollout. Best effort: the rollout has ended for the controller, so errors
   * are ignored.
   */
  async cancel(server: ServerAddress, rolloutId: string): Promise<void> {
    try {
      const request = { path: '/rollout/cancel', body: { ids: [rolloutId] } }
      await this.send(server, request, AbortSignal.timeout(2000))
    } catch {
      // See above.
    }
  }

  /**
   * Sends a request once and reads the answer, whatever its status.
   *
   * @throws OsmosisError with code `protocol_error`, without a `status`, when no whole answer came;
   * the reason of `signal`
   */
  async send(
    server: ServerAddress,
    { path, headers, body }: ServerRequest,
    signal: AbortSignal,
  ): Promise<ServerAnswer> {
    const url = server.url.replace(/\/+$/, '') + path
    const sent = body && { body: JSON.stringify(body) }
    const type = body && { 'content-type': 'application/json' }
    const all = { ...type, ...bearer(server.apiKey), ...headers }
    try {
      const answer = await this.#transport.send(url, { headers: all, ...sent, signal })
      const text = await boundedText(answer.body, maxAnswerBytes)
      if (text === undefined) throw new Error(`the answer is longer than ${maxAnswerBytes} bytes`)
      return { status: answer.status, retryAfterMs: retryAfterMs(answer.headers), text }
    } catch (error) {
      signal.throwIfAborted()
      const cause = isOsmosisError(error) ? error.cause : error
      throw new OsmosisError(
        'protocol_error',
        `${body ? 'POST' : 'GET'} ${shownUrl(url)} got no answer: ${errorMessage(cause)}. Is the rollout server running?`,
        { cause },
      )
    }
  }

  /** Aborts requests in progress. */
  async close(): Promise<void> {
    await this.#transport.close()
  }
}

/** How long to wait before the next attempt at a full server. Milliseconds. */
export function pauseMs({ retryAfterMs: requested = pauses.byDefault }: ServerAnswer): number {
  return Math.min(Math.max(requested, pauses.min), pauses.max)
}

function refusal(path: string, { status, text }: ServerAnswer): OsmosisError {
  const detail = detailOf(text)
  const answered = `POST ${path} was answered with ${status}: ${detail}`
  const options = { status, cause: new Error(detail) }
  if (status === 401) {
    const advice = "Pass the rollout server's key as server.apiKey."
    return new OsmosisError('unauthorized', `${answered}. ${advice}`, options)
  }
  const advice = 'Only 202 and 200 accept a rollout, and only 429 and 503 are retried.'
  return new OsmosisError('protocol_error', `${answered}. ${advice}`, options)
}

/** The reason in an error answer, truncated for messages. */
function detailOf(text: string): string {
  const detail = detailField(text) ?? text
  const shown = typeof detail === 'string' ? detail : JSON.stringify(detail)
  return shown.trim().slice(0, maxDetailLength) || 'empty body'
}

function detailField(text: string): unknown {
  const body = parseJson(text)
  return typeof body === 'object' && body !== null && 'detail' in body ? body.detail : undefined
}

/** A rollout server, and the connections to it. */
export interface ServerConnection {
  readonly server: ServerAddress
  readonly client: ServerClient
}

/**
 * Sends a request once, with a limit for the whole answer.
 *
 * @throws OsmosisError with code `protocol_error`, without a `status`, when no whole answer came in
 * time; the reason of `signal`
 */
export async function sendInTime(
  { server, client }: ServerConnection,
  request: ServerRequest,
  { limitMs, signal }: { limitMs: number; signal: AbortSignal },
): Promise<ServerAnswer> {
  const late = (): OsmosisError =>
    new OsmosisError(
      'protocol_error',
      `${nameOf(request)} got no answer within ${limitMs / 1000} s. Is the rollout server overloaded?`,
    )
  return withTimeLimit({ limitMs, outer: signal, late }, (limited) =>
    client.send(server, request, limited),
  )
}

/**
 * Reads an answer with status 200.
 *
 * @throws OsmosisError with its `status`, and code `unauthorized` or `protocol_error`
 */
export function readAnswer<Body>(
  request: ServerRequest,
  answer: ServerAnswer,
  schema: z.ZodType<Body>,
): Body {
  if (answer.status !== 200) throw refusedBy(request, answer)
  return readBody(request, answer, schema)
}

/**
 * Reads a body with any status.
 *
 * @throws OsmosisError with code `protocol_error`
 */
export function readBody<Body>(
  request: ServerRequest,
  answer: ServerAnswer,
  schema: z.ZodType<Body>,
): Body {
  const body = parseJson(answer.text)
  if (body === undefined) throw brokenAnswer(request, answer, 'is not JSON')
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw brokenAnswer(request, answer, `does not follow the protocol: ${faults.join('; ')}`)
}

/** The error of an answer that violates the protocol. */
export function brokenAnswer(
  request: ServerRequest,
  { status }: ServerAnswer,
  fault: string,
): OsmosisError {
  return new OsmosisError(
    'protocol_error',
    `The answer to ${nameOf(request)} ${fault}. Does a rollout server listen there?`,
    { status },
  )
}

/** The error of a refused request, with advice. */
export function refusedBy(
  request: ServerRequest,
  { status, text }: ServerAnswer,
  advice = '',
): OsmosisError {
  const detail = detailOf(text)
  const answered = `${nameOf(request)} was answered with ${status}: ${detail}.`
  const options = { status, cause: new Error(detail) }
  return status === 401
    ? new OsmosisError(
        'unauthorized',
        `${answered} Pass the rollout server's key as apiKey.`,
        options,
      )
    : new OsmosisError('protocol_error', `${answered} ${advice}`.trimEnd(), options)
}

function nameOf({ path, body }: ServerRequest): string {
  return `${body ? 'POST' : 'GET'} ${path}`
}
