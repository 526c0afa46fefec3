import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { bearer, createTransport, retryAfterMs, wait, type Transport } from '@osmosis/core/http'
import { boundedText } from '@osmosis/runtime/http'

const longestDetail = 500
/** Results hold whole conversations. Bytes. */
const longestAnswer = 256 * 1024 * 1024
/** A full server may ask to wait so long, and is not asked more often than that. Milliseconds. */
const patience = { unsaid: 1000, shortest: 50, longest: 60_000 }

/** Where rollouts are sent: a rollout server, or the server of an agent loop. */
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
  /** How long to wait before asking again. Milliseconds; undefined when the server does not say. */
  readonly retryAfterMs: number | undefined
  readonly text: string
}

/** The way to the servers that run rollouts. Redirects are not followed. */
export class ServerClient {
  readonly #transport: Transport = createTransport({
    name: 'rollout server',
    codes: { unreachable: 'protocol_error', refused: 'protocol_error' },
    // Servers in Python close idle connections after 5 s and do not say so: an order that met a
    // closing one would be lost, and must not be sent again.
    keepAliveMs: 4000,
  })

  /**
   * Sends an order until the server takes it: while the server is full or draining (429, 503), again
   * after its `Retry-After`. `onSend` runs before each attempt. Resolves with the text of the answer.
   *
   * @throws OsmosisError with code `unauthorized` or `protocol_error`, whose `cause` says what the
   * server gave as the reason; the reason of `signal`
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
      // 200 is what servers of the older protocol generation answer.
      if (answer.status === 202 || answer.status === 200) return answer.text
      if (answer.status !== 429 && answer.status !== 503) throw refusal(path, answer)
      await wait(pauseMs(answer), options.signal)
    }
  }

  /**
   * Asks a rollout server to stop a rollout. Best effort: the rollout is over for the controller
   * whatever the server says, so an error is of no use to anybody.
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
      const text = await boundedText(answer.body, longestAnswer)
      if (text === undefined) throw new Error(`the answer is longer than ${longestAnswer} bytes`)
      return { status: answer.status, retryAfterMs: retryAfterMs(answer.headers), text }
    } catch (error) {
      signal.throwIfAborted()
      const cause = isOsmosisError(error) ? error.cause : error
      throw new OsmosisError(
        'protocol_error',
        `${body ? 'POST' : 'GET'} ${url} got no answer: ${errorMessage(cause)}. Is the rollout server running?`,
        { cause },
      )
    }
  }

  /** Breaks off what is in progress. */
  async close(): Promise<void> {
    await this.#transport.close()
  }
}

/** How long a server that has no room wants to be left alone, within limits. Milliseconds. */
export function pauseMs({ retryAfterMs: asked = patience.unsaid }: ServerAnswer): number {
  return Math.min(Math.max(asked, patience.shortest), patience.longest)
}

function refusal(path: string, { status, text }: ServerAnswer): OsmosisError {
  const detail = detailOf(text)
  const answered = `POST ${path} was answered with ${status}: ${detail}`
  const options = { status, cause: new Error(detail) }
  if (status === 401) {
    const advice = "Pass the rollout server's key as server.apiKey."
    return new OsmosisError('unauthorized', `${answered}. ${advice}`, options)
  }
  const advice = 'Only 202 and 200 accept a rollout, and only 429 and 503 ask for a repetition.'
  return new OsmosisError('protocol_error', `${answered}. ${advice}`, options)
}

/** What an error answer says, in a length for messages. */
export function detailOf(text: string): string {
  const detail = detailField(text) ?? text
  const shown = typeof detail === 'string' ? detail : JSON.stringify(detail)
  return shown.trim().slice(0, longestDetail) || 'empty body'
}

function detailField(text: string): unknown {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null && 'detail' in body ? body.detail : undefined
  } catch {
    return undefined
  }
}
