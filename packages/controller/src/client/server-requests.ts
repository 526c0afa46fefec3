import { OsmosisError } from '@osmosis/core'
import { withTimeLimit } from '@osmosis/core/http'
import type { z } from 'zod'

import {
  detailOf,
  type ServerAddress,
  type ServerAnswer,
  type ServerClient,
  type ServerRequest,
} from '../http/server-client.ts'

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
export async function askInTime(
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
 * Reads a body, whatever its status.
 *
 * @throws OsmosisError with code `protocol_error`
 */
export function readBody<Body>(
  request: ServerRequest,
  answer: ServerAnswer,
  schema: z.ZodType<Body>,
): Body {
  let body: unknown
  try {
    body = JSON.parse(answer.text)
  } catch {
    throw brokenAnswer(request, answer, 'is not JSON')
  }
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw brokenAnswer(request, answer, `is not what the protocol says: ${faults.join('; ')}`)
}

/** An answer that breaks the protocol, with the status that it came with. */
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

/** What a request met with an error status says, and what to do about it. */
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
