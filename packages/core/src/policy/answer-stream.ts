import type { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'

import { OsmosisError } from '../errors.ts'
import type { ChatCompletion, ChatCompletionChunk } from '../wire/chat-completion.ts'
import { chunkFromCompletion } from './completion-accumulator.ts'
import { serverSentEvents } from './server-sent-events.ts'

/**
 * The chunks of one answer, streamed or as a single JSON object. It ends normally only when the
 * policy said that it was done.
 *
 * @throws OsmosisError with code `policy_stream_error`; errors of the connection as they come
 */
export async function* readAnswer(
  contentType: string,
  body: Readable,
): AsyncGenerator<ChatCompletionChunk> {
  // Kept open at the end of the answer, so that the connection serves the next call.
  const bytes = body.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>
  let complete = false
  try {
    if (contentType.includes('application/json')) yield await jsonAnswer(bytes)
    else yield* eventStream(bytes)
    complete = true
  } finally {
    body.on('error', ignore)
    if (complete) {
      body.resume()
      // The end of the body is most likely here already; noticed now, the next call of the
      // conversation finds this connection free instead of opening another.
      await setImmediate()
    } else {
      body.destroy()
    }
  }
}

async function* eventStream(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<ChatCompletionChunk> {
  let finished = false
  for await (const { event, data } of serverSentEvents(bytes)) {
    if (data === '[DONE]') return
    const chunk = parseObject(data) as ChatCompletionChunk
    if (event === 'error' || chunk.error) throw reportedError(chunk.error ?? chunk)
    finished ||= chunk.choices?.some(({ finish_reason }) => Boolean(finish_reason)) ?? false
    yield chunk
  }
  if (finished) return
  throw new OsmosisError(
    'policy_stream_error',
    'The answer of the policy ended before its finish_reason: half an answer is not used.',
  )
}

async function jsonAnswer(bytes: AsyncIterable<Uint8Array>): Promise<ChatCompletionChunk> {
  const parts: Uint8Array[] = []
  for await (const part of bytes) parts.push(part)
  const text = Buffer.concat(parts).toString('utf8')
  const completion = parseObject(text) as ChatCompletion & { error?: unknown }
  if (completion.error) throw reportedError(completion.error)
  return chunkFromCompletion(completion)
}

/** The endpoint is trusted to send the format it promised; only that it is an object is checked. */
function parseObject(text: string): object {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // Said below, with the text.
  }
  if (typeof value === 'object' && value !== null) return value
  throw new OsmosisError(
    'policy_stream_error',
    `The policy sent something that is not a JSON object: ${text.slice(0, 200)}`,
  )
}

function reportedError(error: unknown): OsmosisError {
  const said = (error as { message?: unknown } | null)?.message ?? error
  return new OsmosisError(
    'policy_stream_error',
    `The policy reported an error in its answer: ${typeof said === 'string' ? said : JSON.stringify(said)}`,
  )
}

function ignore(): void {}
