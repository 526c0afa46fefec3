import { ServerResponse } from 'node:http'

import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context } from 'hono'

/** What a request is answered. */
export interface RouteAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array<ArrayBuffer>
}

/** An answer in JSON. */
export function jsonAnswer(value: unknown, status = 200): RouteAnswer {
  return jsonTextAnswer(JSON.stringify(value), status)
}

/** An answer whose JSON has been written already. */
export function jsonTextAnswer(body: RouteAnswer['body'], status = 200): RouteAnswer {
  return { status, headers: { 'content-type': 'application/json' }, body }
}

/**
 * Gives an answer to whoever asked. On Node.js it is written as it is: around a web `Response`, whose
 * body is a stream, a small one costs more than all that led to it.
 */
export function giveAnswer(c: Context, answer: RouteAnswer): Response {
  const outgoing = (c.env as { readonly outgoing?: unknown } | undefined)?.outgoing
  if (!(outgoing instanceof ServerResponse)) return toResponse(answer)
  const { status, headers, body } = answer
  outgoing.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body)
  return RESPONSE_ALREADY_SENT
}

export function toResponse({ status, headers, body }: RouteAnswer): Response {
  return new Response(body, { status, headers })
}
