import type { IncomingMessage, ServerResponse } from 'node:http'

import { parseJson } from '@osmosis/core/http'

/** A request as a policy server received it. */
export interface ReceivedRequest {
  /** By lower-case name, as Node gives them. */
  readonly headers: Readonly<IncomingMessage['headers']>
  /** The parsed body; empty when it was not a JSON object. */
  readonly body: Readonly<Record<string, unknown>>
  /** The body as it came. */
  readonly rawBody: string
  /** Path and query. */
  readonly path: string
  /**
   * Resolves when the exchange is over: to true when the client closed its socket before the answer
   * was complete, to false when the answer was complete or the server itself broke it off.
   */
  readonly closed: Promise<boolean>
  /** On the clock of `performance.now()`. Milliseconds. */
  readonly receivedAt: number
}

/** Reads a request to its end. `cutByServer` tells whether a closed socket is the server's doing. */
export async function receive(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  cutByServer: () => boolean,
): Promise<ReceivedRequest> {
  const receivedAt = performance.now()
  const { promise: closed, resolve } = Promise.withResolvers<boolean>()
  outgoing.once('close', () => resolve(!outgoing.writableFinished && !cutByServer()))
  const parts: Buffer[] = []
  for await (const part of incoming as AsyncIterable<Buffer>) parts.push(part)
  const rawBody = Buffer.concat(parts).toString()
  const { headers, url: path = '/' } = incoming
  return { headers, body: parseObject(rawBody), rawBody, path, closed, receivedAt }
}

function parseObject(text: string): Record<string, unknown> {
  const value = parseJson(text)
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
