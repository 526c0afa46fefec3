import type { Readable } from 'node:stream'

import type { Agent, Dispatcher, request } from 'undici'

import { OsmosisError } from '../errors.ts'
import { isRetryableStatus, parseRetryAfter } from './retry.ts'

interface Connections {
  readonly agent: Agent
  readonly request: typeof request
}

let opened: Promise<Connections> | undefined

/**
 * The connections of all policy calls of this process. An answer may take as long as the rollout
 * lives: only the rollout's own deadline ends a call, never a silence of the server (undici and
 * Node's fetch would give up after 300 s).
 */
async function openConnections(): Promise<Connections> {
  // Loaded with the first call: undici is most of what importing this package would cost.
  const undici = await import('undici')
  const agent = new undici.Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 30_000,
    connect: { timeout: 10_000 },
  })
  return { agent, request: undici.request }
}

/** An accepted request whose answer is about to come. */
export interface PolicyAnswer {
  readonly contentType: string
  readonly body: Readable
}

/** Options of {@link postToPolicy}. */
export interface PolicyPostOptions {
  /** Closes the connection behind the answer instead of keeping it for the next request. */
  closeConnection?: boolean | undefined
  /** What to do about an error status, said behind it; default: the hints of rollouts. */
  hints?: Readonly<Record<number, string>> | undefined
}

/**
 * Sends one model request, over connections that the whole process shares. Only `signal` limits
 * how long the answer may take.
 *
 * @throws OsmosisError with code `policy_http_error` or `policy_unreachable`, or the reason of
 * `signal` when that was aborted
 */
export async function postToPolicy(
  url: string,
  headers: Record<string, string>,
  body: string,
  signal: AbortSignal,
  { closeConnection = false, hints = rolloutHints }: PolicyPostOptions = {},
): Promise<PolicyAnswer> {
  const connections = await (opened ??= openConnections())
  let response: Dispatcher.ResponseData
  try {
    response = await connections.request(url, {
      method: 'POST',
      headers,
      body,
      signal,
      dispatcher: connections.agent,
      reset: closeConnection,
    })
  } catch (error) {
    signal.throwIfAborted()
    throw new OsmosisError(
      'policy_unreachable',
      `No answer from the policy endpoint ${url}: ${describeNetworkError(error)}`,
      { cause: error },
    )
  }
  if (response.statusCode < 200 || response.statusCode > 299) {
    const said = await refusalText(response, headers['authorization'])
    signal.throwIfAborted()
    throw httpError(url, response, said, hints)
  }
  return { contentType: String(response.headers['content-type'] ?? ''), body: response.body }
}

/** Whether sending the request again can help, given that no answer had begun. */
export function isRetryablePolicyError(error: unknown): boolean {
  if (!(error instanceof OsmosisError)) return false
  if (error.code === 'policy_http_error') return isRetryableStatus(error.status ?? 0)
  if (error.code !== 'policy_unreachable') return false
  const { code } = error.cause as { code?: unknown }
  return code !== 'UND_ERR_INVALID_ARG' && code !== 'UND_ERR_NOT_SUPPORTED'
}

async function refusalText(
  { body }: Dispatcher.ResponseData,
  authorization: string | undefined,
): Promise<string> {
  const text = errorText(await body.text().catch(() => ''))
  // Between parsing and cutting: JSON can escape the letters of a key, a cut leaves a piece of it.
  return redacted(text, authorization).slice(0, 500)
}

function httpError(
  url: string,
  { statusCode: status, headers }: Dispatcher.ResponseData,
  said: string,
  hints: Readonly<Record<number, string>>,
): OsmosisError {
  const retryAfter = headers['retry-after']
  return new OsmosisError(
    'policy_http_error',
    `The policy endpoint ${url} answered ${status}${said && `: ${said}`}${hints[status] ?? ''}`,
    {
      status,
      retryAfterMs: parseRetryAfter(Array.isArray(retryAfter) ? retryAfter[0] : retryAfter),
    },
  )
}

const keyHint = '. Check the API key that the rollout was sent with (llm_api_key).'
const rolloutHints: Readonly<Record<number, string>> = {
  401: keyHint,
  403: keyHint,
  404: '. chat_completions_url is a base URL: "/chat/completions" is appended to it.',
}

/** The sentence in an error body, in the shapes that OpenAI, FastAPI and proxies use. */
function errorText(body: string): string {
  let said: unknown = body
  try {
    const json = JSON.parse(body) as Record<string, unknown> | null
    const { error, detail, message } = json ?? {}
    const sentence = (error as { message?: unknown } | undefined)?.message
    said = sentence ?? error ?? detail ?? message ?? json
  } catch {
    // Not JSON: the text itself is all there is to say.
  }
  return (typeof said === 'string' ? said : JSON.stringify(said)).trim()
}

// Endpoints have been seen to repeat the key they refused.
function redacted(text: string, authorization: string | undefined): string {
  const key = authorization?.replace(/^Bearer /, '')
  return key ? text.replaceAll(key, '[redacted]') : text
}

function describeNetworkError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: unknown }
  // A refused connection to a name with two addresses is an AggregateError without a message.
  return error.message || (typeof code === 'string' ? code : error.name)
}
