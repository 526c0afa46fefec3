import { ServerResponse } from 'node:http'

import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { currentTraceHeaders, type TraceHeaders } from '@osmosis/core/http'
import type { Context } from 'hono'
import type { z } from 'zod'

/** What the body of a request has to be. */
export interface ExpectedBody<Body> {
  readonly schema: z.ZodType<Body>
  /** The part of `schema` that a body is checked with: problems are those of one part. */
  readonly schemaFor?: (body: unknown) => z.ZodType<Body>
  /**
   * What every element of a named list has to be. A schema reports every wrong element, and the reports
   * of the millions that fit into an ordinary body would not fit into memory.
   */
  readonly lists?: Readonly<Record<string, (element: unknown) => boolean>>
}

/** An answer of a route, for the OpenAPI document. */
export interface DescribedAnswer {
  readonly description: string
  /** Default: a refusal, `{ detail: string }`. */
  readonly schema?: z.ZodType
  /** Default: JSON. Text of another type has no schema. */
  readonly mediaType?: string
}

/**
 * One route of a server: its request, its answers, and its handler. The shell adds what all routes
 * share: the key (401), the body's size, form and schema (413, 422), other methods (405).
 */
export interface ServerRoute<Body = unknown> {
  readonly method: 'GET' | 'POST'
  /** With parameters in braces: `/rollout/{rollout_id}/status`. No two routes have the same. */
  readonly path: string
  /** One sentence, for the OpenAPI document. */
  readonly summary: string
  /** Whether it is served to callers without the key; default false. */
  readonly open?: boolean
  /** Default: the route takes no body. */
  readonly body?: ExpectedBody<Body>
  /** By status; the shell adds its own. */
  readonly answers: Readonly<Record<number, DescribedAnswer>>
  /**
   * Answers a request. `body` has passed the check.
   *
   * @param text - the body as it was written
   * @throws HttpRefusal, which becomes the answer; any other error becomes a 500
   */
  handle(c: Context, body: Body, text: string): RouteAnswer | Promise<RouteAnswer>
}

/** The trace that a request belongs to: the current span of an instrumented server, else the headers of the request. */
export function traceHeadersOf(c: Context): TraceHeaders {
  const names = ['traceparent', 'tracestate'] as const
  const given = names.flatMap((name) => {
    const value = c.req.header(name)
    return value === undefined ? [] : [[name, value] as const]
  })
  return { ...Object.fromEntries(given), ...currentTraceHeaders() }
}

/** The answer to a request. */
export interface RouteAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array<ArrayBuffer>
}

/** An answer in JSON. */
export function jsonAnswer(value: unknown, status = 200): RouteAnswer {
  return jsonTextAnswer(JSON.stringify(value), status)
}

/** An answer whose JSON is already encoded. */
export function jsonTextAnswer(body: RouteAnswer['body'], status = 200): RouteAnswer {
  return { status, headers: { 'content-type': 'application/json' }, body }
}

/**
 * Sends an answer. On Node.js it is written directly: for a small answer, a web `Response`, whose body
 * is a stream, costs more than all the work before it.
 */
export function sendAnswer(c: Context, answer: RouteAnswer): Response {
  const outgoing = (c.env as { readonly outgoing?: unknown } | undefined)?.outgoing
  if (!(outgoing instanceof ServerResponse)) return toResponse(answer)
  const { status, headers, body } = answer
  outgoing.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body)
  return RESPONSE_ALREADY_SENT
}

export function toResponse({ status, headers, body }: RouteAnswer): Response {
  return new Response(body, { status, headers })
}

/** One problem of a request body, in the shape that FastAPI peers know. */
export interface BodyProblem {
  readonly type: string
  readonly loc: readonly (string | number)[]
  readonly msg: string
}

/** Why a request is not served: thrown by a route, answered with {@link HttpRefusal.toAnswer}. */
export class HttpRefusal extends Error {
  override readonly name = 'HttpRefusal'
  readonly status: number
  readonly #detail: string | readonly BodyProblem[]
  readonly #headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    detail: string | readonly BodyProblem[],
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(`HTTP ${status}`)
    this.status = status
    this.#detail = detail
    this.#headers = headers
  }

  toAnswer(): RouteAnswer {
    const answer = jsonAnswer({ detail: this.#detail }, this.status)
    return { ...answer, headers: { ...answer.headers, ...this.#headers } }
  }
}
