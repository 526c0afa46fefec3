import { createParser, type EventSourceMessage, type EventSourceParser } from 'eventsource-parser'

import { errorMessage } from '../error-category.ts'
import { isOsmosisError, OsmosisError } from '../errors.ts'
import type { AnswerBody } from '../http/answer-body.ts'
import { type LongTimer, startTimer } from '../http/long-timer.ts'
import { bodyText, contentText, readableText } from '../http/readable-answer.ts'
import type { HttpAnswer } from '../http/exchange.ts'
import type { ChatCompletion, ChatCompletionChunk } from './chat-completion.ts'
import { defaultPolicyLimits, type PolicyLimits } from './answer-limits.ts'
import { chunkFromCompletion } from './completion-accumulator.ts'

/** Of an answer that is none, for its error. Bytes. */
const mostOfBeginning = 4096

/**
 * The chunks of one answer, streamed or as a single JSON object; those that came together are
 * handed out together. Not a generator: each that a chunk goes through costs as much as reading it.
 * Whoever opens one closes it.
 */
export class PolicyAnswer {
  readonly #body: AnswerBody
  readonly #reader: AnswerReader
  readonly #silenceMs: number
  #silence: LongTimer
  /** Since when the next bytes are awaited; undefined while nobody awaits them. */
  #waitingSince: number | undefined
  /** What is wrong with it, behind everything that was said before. */
  #error: OsmosisError | undefined
  /** What it says before its first chunk, where its type is another than that of answers. */
  #beginning: AnswerBeginning | undefined
  #said = false
  #complete = false

  constructor(answer: HttpAnswer, limits: Required<PolicyLimits> = defaultPolicyLimits) {
    const { contentType, body } = answer
    this.#body = body
    if (!/^$|json|event-stream/i.test(contentType)) this.#beginning = new AnswerBeginning(answer)
    this.#reader = answerReader(contentType, limits.maxLineBytes)
    this.#silenceMs = limits.silenceSeconds * 1000
    this.#silence = startTimer(this.#silenceMs, () => this.#checkSilence())
  }

  /** Whether it was read to its end, which comes only when the policy said that it was done. */
  get complete(): boolean {
    return this.#complete
  }

  /**
   * The chunks that have come since the last time; at the end there may be none.
   *
   * @throws OsmosisError with code `policy_stream_error`
   */
  async next(): Promise<readonly ChatCompletionChunk[]> {
    try {
      if (this.#error !== undefined) throw this.#error
      const pieces = this.#reader.ended || this.#said ? undefined : await this.#nextPieces()
      if (pieces !== undefined) return this.#add(pieces)
      if (!this.#said) this.#reader.end()
    } catch (error) {
      throw this.#explained(toStreamError(error))
    }
    this.#said = true
    const last = this.#reader.take()
    if (last.length > 0) return last
    this.#complete = true
    this.#silence.clear()
    // Left open, so that the connection serves the next call.
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

  /** One timer for the whole answer: to start one for each piece costs more than to look again. */
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

  /** An answer of another type, without a single chunk, is no answer that broke off. */
  #explained(error: OsmosisError): OsmosisError {
    const said = this.#beginning?.text
    return said ? new OsmosisError('policy_stream_error', said, { cause: error }) : error
  }
}

/** The first bytes of an answer whose type is another than that of answers. */
class AnswerBeginning {
  readonly #answer: HttpAnswer
  readonly #pieces: Uint8Array[] = []
  #bytes = 0

  constructor(answer: HttpAnswer) {
    this.#answer = answer
  }

  add(pieces: readonly Uint8Array[]): void {
    for (const piece of pieces) {
      if (this.#bytes >= mostOfBeginning) return
      this.#pieces.push(piece)
      this.#bytes += piece.length
    }
  }

  /** Undefined without any. */
  get text(): string | undefined {
    const said = readableText(bodyText(Buffer.concat(this.#pieces), this.#answer))
    if (said === '') return undefined
    return `The policy answered ${this.#answer.status}${contentText(this.#answer)}, which is no chat completion: ${said}`
  }
}

/** Takes the bytes of an answer in, and gives out the chunks that were whole so far. */
export interface AnswerReader {
  /** Whether the policy said that nothing follows. */
  readonly ended: boolean
  /** @throws OsmosisError with code `policy_stream_error`; what was whole before can be taken */
  add(pieces: readonly Uint8Array[]): void
  /** Nothing follows. Throws as `add` does, also for an answer that was not complete. */
  end(): void
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

/** An answer as server-sent events, however its bytes were split. */
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
        // Lines of other fields are of no interest.
        if (type === 'max-buffer-size-exceeded') throw tooLong('a line', maxLineBytes)
      },
    })
  }

  add(pieces: readonly Uint8Array[]): void {
    for (const piece of pieces) this.#parser.feed(this.#text.decode(piece))
  }

  end(): void {
    // Some servers close right behind the last line, without the empty line that ends an event.
    if (!this.ended) this.#parser.feed(`${this.#text.rest()}\n\n`)
    if (this.ended || this.#finished) return
    throw new OsmosisError(
      'policy_stream_error',
      'The answer of the policy ended before its finish_reason: half an answer is not used.',
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
    // Whoever puts the answer together complains of a chunk that is not made as it should be.
    this.#finished ||= Array.isArray(choices) && chunk.choices.some(saysFinished)
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

/** UTF-8 whose characters may be split; bytes that are not UTF-8 are not guessed at. */
class AnswerText {
  readonly #decoder = new TextDecoder('utf-8', { fatal: true })

  decode(piece: Uint8Array): string {
    try {
      return this.#decoder.decode(piece, { stream: true })
    } catch (cause) {
      throw notUtf8(Buffer.from(piece).toString('utf8'), cause)
    }
  }

  /** Nothing, unless the text ended within a character. */
  rest(): string {
    try {
      return this.#decoder.decode()
    } catch (cause) {
      throw notUtf8('the end of the answer', cause)
    }
  }
}

function saysFinished(choice: ChatCompletionChunk['choices'][number] | null): boolean {
  return Boolean(choice?.finish_reason)
}

/** What it holds is looked at by whoever puts the answer together. */
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

/** For a part of an answer that does not have the shape it should have. */
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
    `The policy sent nothing for ${seconds} s in the middle of its answer: half an answer is not used. policyLimits.silenceSeconds in the workflow's config sets this limit.`,
  )
}

function notUtf8(said: string, cause: unknown): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent bytes that are not UTF-8 text: ${said.slice(0, 200)}`,
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
  const said = (error as { message?: unknown } | null)?.message ?? error
  return new OsmosisError(
    'policy_stream_error',
    `The policy reported an error in its answer: ${typeof said === 'string' ? said : JSON.stringify(said)}`,
  )
}
