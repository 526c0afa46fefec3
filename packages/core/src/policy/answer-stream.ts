import type { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'

import type { EventSourceMessage } from 'eventsource-parser'

import { errorMessage } from '../error-category.ts'
import { isOsmosisError, OsmosisError } from '../errors.ts'
import type { ChatCompletion, ChatCompletionChunk } from '../wire/chat-completion.ts'
import { chunkFromCompletion } from './completion-accumulator.ts'
import { serverSentEvents } from './server-sent-events.ts'

/**
 * The chunks of one answer, streamed or as a single JSON object. It ends normally only when the
 * policy said that it was done.
 *
 * @throws OsmosisError with code `policy_stream_error`
 */
export async function* readAnswer(
  contentType: string,
  body: Readable,
): AsyncGenerator<ChatCompletionChunk> {
  // Kept open at the end of the answer, so that the connection serves the next call.
  const bytes = body.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>
  let complete = false
  try {
    if (contentType.includes('application/json')) {
      yield await jsonAnswer(bytes)
    } else {
      const stream = new AnswerEvents()
      // One loop for all of it: every generator that a chunk goes through costs time.
      for await (const events of serverSentEvents(bytes)) {
        for (const event of events) {
          const chunk = stream.take(event)
          if (chunk) yield chunk
        }
        if (stream.ended) break
      }
      stream.assertComplete()
    }
    complete = true
  } catch (error) {
    throw isOsmosisError(error) ? error : brokenOff(error)
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

/** What the events of a streamed answer say about where it ends. */
class AnswerEvents {
  #finished = false
  #ended = false

  /** Whether the policy said that nothing follows. */
  get ended(): boolean {
    return this.#ended
  }

  /** The chunk that an event carries; undefined for the mark of the end, and behind it. */
  take({ event, data }: EventSourceMessage): ChatCompletionChunk | undefined {
    this.#ended ||= data === '[DONE]'
    if (this.#ended) return undefined
    const chunk = parseObject(data) as ChatCompletionChunk
    if (event === 'error' || chunk.error) throw reportedError(chunk.error ?? chunk)
    const choices: unknown = chunk.choices
    // Whoever puts the answer together complains of a chunk that is not made as it should be.
    this.#finished ||= Array.isArray(choices) && chunk.choices.some(saysFinished)
    return chunk
  }

  assertComplete(): void {
    if (this.#ended || this.#finished) return
    throw new OsmosisError(
      'policy_stream_error',
      'The answer of the policy ended before its finish_reason: half an answer is not used.',
    )
  }
}

function saysFinished(choice: ChatCompletionChunk['choices'][number] | null): boolean {
  return Boolean(choice?.finish_reason)
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

function brokenOff(error: unknown): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The answer of the policy broke off: ${errorMessage(error)}`,
    { cause: error },
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
