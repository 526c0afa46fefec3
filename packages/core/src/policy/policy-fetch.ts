import { randomUUID } from 'node:crypto'

import { isOsmosisError, OsmosisError, type OsmosisErrorCode } from '../errors.ts'
import { shownUrl } from '../http/error-text.ts'
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
} from './chat-completion.ts'
import type { PolicyCallOptions, PolicyStream } from './policy-stream.ts'
import { useHeaderNames } from './policy-wire.ts'

const forwarded = ['user-agent', ...useHeaderNames]

/** A `fetch` that calls the policy, for SDKs that accept one for chat completions. */
export function createPolicyFetch(policy: {
  stream(request: ChatCompletionRequest, options?: PolicyCallOptions): PolicyStream
}): typeof globalThis.fetch {
  return async (input, init) => {
    const request = new Request(input, init)
    if (request.method !== 'POST' || !isForCompletions(request.url)) {
      throw new OsmosisError(
        'invalid_request',
        `The policy answers POST …/chat/completions only, got ${request.method} ${shownUrl(request.url)}.`,
      )
    }
    const body = (await request.json()) as ChatCompletionRequest
    const { signal } = request
    const headers = Object.fromEntries(
      forwarded.flatMap((name) => {
        const value = request.headers.get(name)
        return value === null ? [] : [[name, value] as const]
      }),
    )
    const answer = policy.stream(body, { signal, headers })
    // The signal of a request follows that of the caller only until the request, or one that it was made of, is collected.
    const held = new Set<unknown>([input, request])
    const letGo = (): void => held.clear()
    answer.completion.then(letGo, letGo)
    const chunks = answer[Symbol.asyncIterator]()
    const first = chunks.next()
    try {
      // The first chunk is awaited so that a refusal can become a status.
      await first
    } catch (error) {
      signal.throwIfAborted()
      const refusal = refusalResponse(error)
      if (refusal !== undefined) return refusal
      if (!isOsmosisError(error) || error.code !== 'policy_stream_error') throw error
    }
    const all = fromFirst(first, chunks)
    return body['stream'] === true ? eventStreamResponse(all) : jsonResponse(all, answer.completion)
  }
}

/** SDKs append the path to the text of a base URL, also where that ends in a query. */
function isForCompletions(url: string): boolean {
  return /\/chat\/completions\/?(?:[?#]|$)/.test(url)
}

/** A failure after the start of the answer is an error of the body, which SDKs do not retry. */
async function* fromFirst(
  first: Promise<IteratorResult<ChatCompletionChunk>>,
  chunks: AsyncIterator<ChatCompletionChunk>,
): AsyncGenerator<ChatCompletionChunk> {
  try {
    for (let next = await first; !next.done; next = await chunks.next()) yield next.value
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    // Without the cause: SDKs retry when the chain has a network error.
    throw new OsmosisError(error.code, error.message)
  } finally {
    await chunks.return?.()
  }
}

function jsonResponse(
  chunks: AsyncGenerator<ChatCompletionChunk>,
  completion: Promise<ChatCompletion>,
): Response {
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      let next = await chunks.next()
      while (!next.done) next = await chunks.next()
      const { id, ...answer } = await completion
      // Frameworks identify messages by it: answers without one would replace each other.
      const json = JSON.stringify({ id: id || `chatcmpl-${randomUUID()}`, ...answer })
      controller.enqueue(new TextEncoder().encode(json))
      controller.close()
    },
  })
  return new Response(body, { headers: { 'content-type': 'application/json' } })
}

function eventStreamResponse(chunks: AsyncGenerator<ChatCompletionChunk>): Response {
  const encoder = new TextEncoder()
  const body = new ReadableStream<Uint8Array>({
    // An error thrown here is an error of the body, not its end.
    async pull(controller) {
      const next = await chunks.next()
      const data = next.done ? '[DONE]' : JSON.stringify(next.value)
      controller.enqueue(encoder.encode(`data: ${data}\n\n`))
      if (next.done) controller.close()
    },
    async cancel() {
      await chunks.return(undefined)
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

/** For errors without a status. */
const statusOf: Partial<Record<OsmosisErrorCode, number>> = {
  policy_http_error: 502,
  policy_unreachable: 502,
  egress_refused: 403,
}

/**
 * A refusal of the policy, as SDKs expect it. The header stops SDKs that know it from retrying, because the
 * policy client has retried already.
 */
function refusalResponse(error: unknown): Response | undefined {
  if (!isOsmosisError(error)) return undefined
  const { code, message, endpointCode, endpointType } = error
  const answered = error.status ?? statusOf[code]
  if (answered === undefined) return undefined
  // A refusal with another status, such as 304, would be none to an SDK, and some of them have no body.
  const status = answered < 400 ? 502 : answered
  const type = endpointType ?? (status < 500 ? 'invalid_request_error' : 'server_error')
  return Response.json(
    { error: { message, type, code: endpointCode ?? code } },
    { status, headers: { 'x-should-retry': 'false' } },
  )
}
