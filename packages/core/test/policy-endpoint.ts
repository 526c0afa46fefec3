import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

import { onTestFinished } from 'vitest'

import type { ChatCompletionRequest } from '@osmosis/core/wire'

export interface ReceivedRequest {
  url: string
  headers: IncomingHttpHeaders
  rawBody: string
  body: ChatCompletionRequest
  /** Resolves when the client's side of the connection is gone. */
  closed: Promise<void>
}

export interface PolicyEndpoint {
  /** Base URL, without `/chat/completions`. */
  url: string
  requests: ReceivedRequest[]
}

/** A policy endpoint on a real socket that answers whatever `answer` writes. */
export async function startPolicyEndpoint(
  answer: (response: ServerResponse, n: number, request: ReceivedRequest) => unknown,
): Promise<PolicyEndpoint> {
  const requests: ReceivedRequest[] = []
  const server = createServer((message, response) => {
    const parts: Buffer[] = []
    message.on('data', (part: Buffer) => parts.push(part))
    message.on('end', () => {
      const rawBody = Buffer.concat(parts).toString('utf8')
      const request: ReceivedRequest = {
        url: message.url ?? '',
        headers: message.headers,
        rawBody,
        body: JSON.parse(rawBody) as ChatCompletionRequest,
        closed: new Promise((resolve) => {
          response.on('close', resolve)
        }),
      }
      requests.push(request)
      answer(response, requests.length, request)
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, requests }
}

/** Server-sent events of `chunks`, with `[DONE]` at the end. */
export function eventStream(...chunks: unknown[]): string {
  return [...chunks.map((data) => JSON.stringify(data)), '[DONE]']
    .map((data) => `data: ${data}\n\n`)
    .join('')
}

/** One chunk of a streamed answer. */
export function chunk(delta: object, finishReason: string | null = null): object {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'policy',
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  }
}

export const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }

/** A whole answer as server-sent events: text, or an assistant message of any kind. */
export function answerStream(answer: string | Record<string, unknown>): string {
  const delta = typeof answer === 'string' ? { content: answer } : answer
  const calls = delta['tool_calls'] as object[] | undefined
  return eventStream(
    chunk({ role: 'assistant', content: '' }),
    chunk({
      ...delta,
      ...(calls ? { tool_calls: calls.map((call, index) => ({ index, ...call })) } : {}),
    }),
    chunk({}, calls ? 'tool_calls' : 'stop'),
    { ...chunk({}), choices: [], usage },
  )
}

export function sendStream(response: ServerResponse, body: string): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(body)
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
