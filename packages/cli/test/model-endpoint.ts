import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import { onTestFinished } from 'vitest'

/** An environment in which a model call that fails is not made again and again. */
export const noRetries = { OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES: '0' }

/** A request that an endpoint got. */
export interface Received {
  path: string
  headers: IncomingMessage['headers']
  body: Record<string, unknown>
}

/** An endpoint in node:http that records what it gets and answers what `answer` says; the call before a run only with `preflight`. */
export async function endpoint(
  answer: (request: Received, response: ServerResponse) => void,
  { preflight = false }: { readonly preflight?: boolean } = {},
): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = []
  const server = createServer((message, response) => {
    const parts: Buffer[] = []
    message.on('data', (part: Buffer) => parts.push(part))
    message.on('end', () => {
      const body = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>
      const request = { path: message.url ?? '', headers: message.headers, body }
      // The call before a run is about itself alone.
      if (!preflight && JSON.stringify(body['messages'])?.includes('Say ok.')) {
        say(response, 'ok')
        return
      }
      received.push(request)
      answer(request, response)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }
}

/** Answers a model call with a text, for seven tokens. */
export function say(response: ServerResponse, content: string): void {
  const message = { role: 'assistant', content }
  const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
  response
    .writeHead(200, { 'content-type': 'application/json' })
    .end(JSON.stringify({ choices: [{ message, finish_reason: 'stop' }], usage }))
}

/** Refuses a model call, as OpenAI-compatible endpoints do. */
export function refuse(response: ServerResponse, status: number, message: string): void {
  response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(JSON.stringify({ error: { message } }))
}
