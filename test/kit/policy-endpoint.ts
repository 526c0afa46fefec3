import type { ServerResponse } from 'node:http'

import type { ChatCompletionRequest } from '@osmosis/core/policy'
import { onTestFinished } from 'vitest'

import { HttpPeer, type PeerRequest } from './http-peer.ts'

/** A model call as it came over the wire. */
export interface ReceivedCall extends Omit<PeerRequest, 'body'> {
  readonly body: ChatCompletionRequest
  /** Resolves when the exchange is over: to true when the client closed its connection before the answer was complete. */
  readonly closed: Promise<boolean>
}

export interface TestPolicyEndpoint {
  /** Base URL, without `/chat/completions`. */
  readonly url: string
  readonly requests: readonly ReceivedCall[]
}

type Respond = (response: ServerResponse, n: number, request: ReceivedCall) => unknown

class PolicyPeer extends HttpPeer {
  readonly requests: ReceivedCall[] = []
  readonly #respond: Respond

  constructor(respond: Respond) {
    super()
    this.#respond = respond
  }

  protected override receive(request: PeerRequest, response: ServerResponse): void {
    const call: ReceivedCall = {
      ...request,
      body: request.body as ChatCompletionRequest & Record<string, unknown>,
      closed: new Promise((resolve) => {
        response.on('close', () => resolve(!response.writableFinished))
      }),
    }
    this.requests.push(call)
    this.#respond(response, this.requests.length, call)
  }
}

/**
 * A policy endpoint whose answers `respond` writes, for answers that a script cannot express.
 * It ends with the test.
 */
export async function startPolicyEndpoint(respond: Respond): Promise<TestPolicyEndpoint> {
  const peer = await new PolicyPeer(respond).start()
  onTestFinished(async () => peer[Symbol.asyncDispose]())
  return { url: `${peer.url}/v1`, requests: peer.requests }
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
