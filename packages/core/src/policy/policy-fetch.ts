import { isOsmosisError, OsmosisError } from '../errors.ts'
import type { ChatCompletionChunk, ChatCompletionRequest } from '../wire/chat-completion.ts'
import { CompletionAccumulator } from './completion-accumulator.ts'

type Stream = (
  request: ChatCompletionRequest,
  options: { signal?: AbortSignal },
) => AsyncIterable<ChatCompletionChunk>

/** A `fetch` that asks the policy, for SDKs that speak chat completions over a fetch of yours. */
export function createPolicyFetch(stream: Stream): typeof globalThis.fetch {
  return async (input, init) => {
    const request = new Request(input, init)
    if (
      request.method !== 'POST' ||
      !/\/chat\/completions\/?$/.test(new URL(request.url).pathname)
    ) {
      throw new OsmosisError(
        'invalid_request',
        `The policy answers POST …/chat/completions only, got ${request.method} ${request.url}.`,
      )
    }
    const body = (await request.json()) as ChatCompletionRequest
    const chunks = stream(body, { signal: request.signal })[Symbol.asyncIterator]()
    try {
      if (body['stream'] !== true) return Response.json(await collect(chunks))
      // The first chunk is awaited so that a refusal can still be told as a status.
      return eventStreamResponse(await chunks.next(), chunks)
    } catch (error) {
      request.signal.throwIfAborted()
      const refusal = refusalResponse(error)
      if (refusal === undefined) throw error
      return refusal
    }
  }
}

async function collect(chunks: AsyncIterator<ChatCompletionChunk>): Promise<unknown> {
  const answer = new CompletionAccumulator()
  for (let next = await chunks.next(); !next.done; next = await chunks.next()) {
    answer.add(next.value)
  }
  return answer.completion()
}

function eventStreamResponse(
  first: IteratorResult<ChatCompletionChunk>,
  chunks: AsyncIterator<ChatCompletionChunk>,
): Response {
  const encoder = new TextEncoder()
  let next: IteratorResult<ChatCompletionChunk> | undefined = first
  const body = new ReadableStream<Uint8Array>({
    // An error thrown here becomes an error of the body, never an early end of it.
    async pull(controller) {
      const result = next ?? (await chunks.next())
      next = undefined
      if (result.done) {
        controller.enqueue(encoder.encode('data: [DONE]\n\n'))
        controller.close()
      } else {
        controller.enqueue(encoder.encode(`data: ${JSON.stringify(result.value)}\n\n`))
      }
    },
    async cancel() {
      await chunks.return?.()
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

/**
 * What the policy refused, as the answer an SDK expects. The header keeps SDKs that know it from
 * asking again: whatever was worth retrying has been retried.
 */
function refusalResponse(error: unknown): Response | undefined {
  if (!isOsmosisError(error)) return undefined
  if (error.code !== 'policy_http_error' && error.code !== 'policy_unreachable') return undefined
  return Response.json(
    { error: { message: error.message, type: error.code, code: error.code } },
    { status: error.status ?? 502, headers: { 'x-should-retry': 'false' } },
  )
}
