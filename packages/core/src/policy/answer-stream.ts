import { createParser, type EventSourceMessage, type EventSourceParser } from 'eventsource-parser'

import { errorMessage, isOsmosisError, OsmosisError } from '../errors.ts'
import type { AnswerBody, HttpAnswer } from '../http/answer.ts'
import { type LongTimer, startTimer } from '../http/waiting.ts'
import { bodyText, contentText, readableText } from '../http/answer-text.ts'
import type { ChatCompletion, ChatCompletionChunk } from './chat-completion.ts'
import { defaultPolicyLimits, type PolicyLimits } from './answer-limits.ts'
import { chunkFromCompletion } from './completion-accumulator.ts'

/** How much of an unexpected answer its error can quote. Bytes. */
const maxQuotedBytes = 4096

/**
 * The chunks of one answer, streamed or as a single JSON object, in the batches in which they arrive. Not a
 * generator: each generator that a chunk passes through costs as much as parsing it. The caller closes it.
 */
export class PolicyAnswer {
  readonly #body: AnswerBody
  readonly #reader: AnswerReader
  readonly #silenceMs: number
  #silence: LongTimer
  /** When the reader started to wait for bytes; undefined while it does not. */
  #waitingSince: number | undefined
  /** Thrown after the chunks before it have been read. */
  #error: OsmosisError | undefined
  /** The bytes before the first chunk, of an answer with an unexpected content type. */
  #beginning: AnswerBeginning | undefined
  /** Whether all bytes have been read. */
  #ended = false
  #complete = false

  constructor(answer: HttpAnswer, limits: Required<PolicyLimits> = defaultPolicyLimits) {
    const { contentType, body } = answer
    this.#body = body
    if (!/^$|json|event-stream/i.test(contentType)) this.#beginning = new AnswerBeginning(answer)
    this.#reader = answerReader(contentType, limits.maxLineBytes)
    this.#silenceMs = limits.silenceSeconds * 1000
    this.#silence = startTimer(this.#silenceMs, () => this.#checkSilence())
  }

  /** Whether it was read to its end, which needs a finish reason or `[DONE]`. */
  get complete(): boolean {
    return this.#complete
  }

  /**
   * The chunks that have arrived since the last call; at the end there may be none.
   *
   * @throws OsmosisError with code `policy_stream_error`
   */
  async next(): Promise<readonly ChatCompletionChunk[]> {
    try {
      if (this.#error !== undefined) throw this.#error
      const pieces = this.#reader.ended || this.#ended ? undefined : await this.#nextPieces()
      if (pieces !== undefined) return this.#add(pieces)
      if (!this.#ended) this.#reader.end()
    } catch (error) {
      throw this.#explained(toStreamError(error))
    }
    this.#ended = true
    const last = this.#reader.take()
    if (last.length > 0) return last
    this.#complete = true
    this.#silence.clear()
    // Not closed, so that the next call can use the connection.
    this.#body.drain()
    return last
  }

  /** Closes the connection of an answer that was not read to its end. */
  close(): void {
    this.#silence.clear()
    if (!this.#complete) this.#body.destroy()
  }

  async #nextPieces(): Promise<readonly Uint8Array[] | undefined> {
    this.#waitingSince = performance.now()
    try {
      return await this.#body.next()
    } finally {
      this.#waitingSince = undefined
    }
  }

  /** One timer for the whole answer, which rearms itself: starting one for each piece costs more. */
  #checkSilence(): void {
    const waited = this.#waitingSince === undefined ? 0 : performance.now() - this.#waitingSince
    if (waited >= this.#silenceMs) this.#body.destroy(silent(this.#silenceMs / 1000))
    else this.#silence = startTimer(this.#silenceMs - waited, () => this.#checkSilence())
  }

  #add(pieces: readonly Uint8Array[]): readonly ChatCompletionChunk[] {
    this.#beginning?.add(pieces)
    try {
      this.#reader.add(pieces)
    } catch (error) {
      this.#error = toStreamError(error)
    }
    const chunks = this.#reader.take()
    if (chunks.length > 0) this.#beginning = undefined
    return chunks
  }

  /** The error of an answer with another content type and without chunks quotes the answer instead. */
  #explained(error: OsmosisError): OsmosisError {
    const text = this.#beginning?.text
    return text ? new OsmosisError('policy_stream_error', text, { cause: error }) : error
  }
}

/** The first bytes of an answer with an unexpected content type. */
class AnswerBeginning {
  readonly #answer: HttpAnswer
  readonly #pieces: Uint8Array[] = []
  #bytes = 0

  constructor(answer: HttpAnswer) {
    this.#answer = answer
  }

  add(pieces: readonly Uint8Array[]): void {
    for (const piece of pieces) {
      if (this.#bytes >= maxQuotedBytes) return
      this.#pieces.push(piece)
      this.#bytes += piece.length
    }
  }

  /** A sentence that quotes them; undefined when there are none. */
  get text(): string | undefined {
    const text = readableText(bodyText(Buffer.concat(this.#pieces), this.#answer))
    if (text === '') return undefined
    return `The policy answered ${this.#answer.status}${contentText(this.#answer)}, which is not a chat completion: ${text}`
  }
}

/** Parses the bytes of an answer into chunks. */
export interface AnswerReader {
  /** Whether `[DONE]` has arrived. */
  readonly ended: boolean
  /** @throws OsmosisError with code `policy_stream_error`; `take` still returns the chunks before the error */
  add(pieces: readonly Uint8Array[]): void
  /** To be called after the last piece. Throws as `add` does, also for an incomplete answer. */
  end(): void
  /** The chunks that have been parsed since the last call. */
  take(): readonly ChatCompletionChunk[]
}

/**
 * The reader of an answer of this `content-type`.
 *
 * @param maxLineBytes - see {@link PolicyLimits}
 */
export function answerReader(
  contentType: string,
  maxLineBytes: number = defaultPolicyLimits.maxLineBytes,
): AnswerReader {
  return contentType.includes('application/json')
    ? new JsonAnswer(maxLineBytes)
    : new AnswerEvents(maxLineBytes)
}

/** An answer as server-sent events. */
class AnswerEvents implements AnswerReader {
  readonly #text = new AnswerText()
  readonly #parser: EventSourceParser
  #chunks: ChatCompletionChunk[] = []
  #finished = false
  ended = false

  constructor(maxLineBytes: number) {
    this.#parser = createParser({
      maxBufferSize: Math.min(maxLineBytes, Number.MAX_SAFE_INTEGER),
      onEvent: (event) => this.#read(event),
      onError: ({ type }) => {
        // Unknown fields are ignored.
        if (type === 'max-buffer-size-exceeded') throw tooLong('a line', maxLineBytes)
      },
    })
  }

  add(pieces: readonly Uint8Array[]): void {
    for (const piece of pieces) this.#parser.feed(this.#text.decode(piece))
  }

  end(): void {
    // Some servers omit the empty line that ends the last event.
    if (!this.ended) this.#parser.feed(`${this.#text.rest()}\n\n`)
    if (this.ended || this.#finished) return
    throw new OsmosisError(
      'policy_stream_error',
      'The answer of the policy ended before its finish_reason: an incomplete answer is not used.',
    )
  }

  take(): readonly ChatCompletionChunk[] {
    const chunks = this.#chunks
    this.#chunks = []
    return chunks
  }

  #read({ event, data }: EventSourceMessage): void {
    this.ended ||= data === '[DONE]'
    if (this.ended) return
    const chunk = parseObject(data) as ChatCompletionChunk
    if (event === 'error' || chunk.error) throw reportedError(chunk.error ?? chunk)
    const choices: unknown = chunk.choices
    // The accumulator reports malformed chunks.
    this.#finished ||= Array.isArray(choices) && chunk.choices.some(hasFinishReason)
    this.#chunks.push(chunk)
  }
}

/** An answer as one JSON object, from endpoints that do not stream. */
class JsonAnswer implements AnswerReader {
  readonly ended = false
  readonly #text = new AnswerText()
  readonly #maxBytes: number
  #bytes = 0
  #json = ''
  #chunks: ChatCompletionChunk[] = []

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  add(pieces: readonly Uint8Array[]): void {
    for (const piece of pieces) {
      this.#bytes += piece.length
      if (this.#bytes > this.#maxBytes) throw tooLong('a JSON answer', this.#maxBytes)
      this.#json += this.#text.decode(piece)
    }
  }

  end(): void {
    const completion = parseObject(this.#json + this.#text.rest())
    const { error } = completion as { error?: unknown }
    if (error) throw reportedError(error)
    try {
      this.#chunks = [chunkFromCompletion(completion as ChatCompletion)]
    } catch (cause) {
      throw unreadable('an answer', completion, cause)
    }
  }

  take(): readonly ChatCompletionChunk[] {
    const chunks = this.#chunks
    this.#chunks = []
    return chunks
  }
}

/** Decodes UTF-8 whose characters may be split. Other bytes are an error. */
class AnswerText {
  readonly #decoder = new TextDecoder('utf-8', { fatal: true })

  decode(piece: Uint8Array): string {
    try {
      return this.#decoder.decode(piece, { stream: true })
    } catch (cause) {
      throw notUtf8(Buffer.from(piece).toString('utf8'), cause)
    }
  }

  /** Always empty: throws when the text ended within a character. */
  rest(): string {
    try {
      return this.#decoder.decode()
    } catch (cause) {
      throw notUtf8('the end of the answer', cause)
    }
  }
}

function hasFinishReason(choice: ChatCompletionChunk['choices'][number] | null): boolean {
  return Boolean(choice?.finish_reason)
}

/** The accumulator checks what it contains. */
function parseObject(text: string): object {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // Reported below, with the text.
  }
  if (typeof value === 'object' && value !== null) return value
  throw new OsmosisError(
    'policy_stream_error',
    `The policy sent something that is not a JSON object: ${text.slice(0, 200)}`,
  )
}

/** The error of a malformed part of an answer. */
export function unreadable(what: string, sent: object, cause: unknown): OsmosisError {
  if (isOsmosisError(cause)) return cause
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent ${what} that cannot be read: ${JSON.stringify(sent).slice(0, 200)}`,
    { cause },
  )
}

function tooLong(what: string, maxBytes: number): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent ${what} of more than ${maxBytes} bytes. policyLimits.maxLineBytes in the workflow's config sets this limit.`,
  )
}

function silent(seconds: number): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent nothing for ${seconds} s in the middle of its answer: an incomplete answer is not used. policyLimits.silenceSeconds in the workflow's config sets this limit.`,
  )
}

function notUtf8(text: string, cause: unknown): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent bytes that are not UTF-8 text: ${text.slice(0, 200)}`,
    { cause },
  )
}

function toStreamError(error: unknown): OsmosisError {
  if (isOsmosisError(error)) return error
  return new OsmosisError(
    'policy_stream_error',
    `The answer of the policy broke off: ${errorMessage(error)}`,
    { cause: error },
  )
}

function reportedError(error: unknown): OsmosisError {
  const message = (error as { message?: unknown } | null)?.message ?? error
  return new OsmosisError(
    'policy_stream_error',
    `The policy reported an error in its answer: ${typeof message === 'string' ? message : JSON.stringify(message)}`,
  )
}
