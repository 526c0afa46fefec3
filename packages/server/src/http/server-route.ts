import { currentTraceHeaders, type TraceHeaders } from '@osmosis/core/http'
import type { Context } from 'hono'
import type { z } from 'zod'

import type { ExpectedBody } from './request-body.ts'
import type { RouteAnswer } from './route-answer.ts'

/** An answer of a route, for the OpenAPI document. */
export interface DescribedAnswer {
  readonly description: string
  /** Default: a refusal, `{ detail: string }`. */
  readonly schema?: z.ZodType
  /** Default: JSON. Text of another type has no schema. */
  readonly mediaType?: string
}

/**
 * One route of a server: what it takes, what it answers, and the code that does. The shell adds
 * what all routes have in common: the key (401), the body's size, form and schema (413, 422), other
 * methods (405).
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
  /** By status; those that the shell gives are added to them. */
  readonly answers: Readonly<Record<number, DescribedAnswer>>
  /**
   * Answers a request. `body` has passed the check.
   *
   * @throws HttpRefusal, which becomes the answer; any other error becomes a 500
   */
  handle(c: Context, body: Body): RouteAnswer | Promise<RouteAnswer>
}

/** Whether a value is a JSON object: not null, no array. */
export function isJsonObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The trace that a request belongs to: the one it names, or what instruments the server made of it. */
export function traceHeadersOf(c: Context): TraceHeaders {
  const names = ['traceparent', 'tracestate'] as const
  const given = names.flatMap((name) => {
    const value = c.req.header(name)
    return value === undefined ? [] : [[name, value] as const]
  })
  return { ...Object.fromEntries(given), ...currentTraceHeaders() }
}
