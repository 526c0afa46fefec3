import { parseJson } from '../../http/json.ts'
import { createParser, type EventSourceMessage, type EventSourceParser } from 'eventsource-parser'

import { OsmosisError } from '../../errors.ts'
import type { ChatCompletion, ChatCompletionChunk, ChatDelta } from '../chat-completion.ts'
import {
  assertIsAnswer,
  assertNoFailure,
  isFailureLine,
  isPartOfAnswer,
  isPing,
  isPingData,
} from './answer-failures.ts'
import { defaultPolicyLimits } from './answer-limits.ts'
import { saysSomething } from './completion-accumulator.ts'

/** Parses the bytes of an answer into chunks. */
export interface AnswerReader {
  /** Whether `[DONE]` has arrived. */
  readonly ended: boolean
  /** Whether a finish reason or `[DONE]` has arrived. */
  readonly finished: boolean
  /** @throws OsmosisError with code `policy_stream_error`; `take` still returns the chunks before the error */
  add(pieces: readonly Uint8Array[]): void
  /** To be called after the last piece. Throws as `add` does, also for an incomplete answer. */
  end(): void
  /** The chunks that have been parsed since the last call. */
  take(): readonly ChatCompletionChunk[]
}

/**
 * The reader of an answer. Servers and gateways confuse the content types of events and JSON, so the first
 * character decides where it can.
 *
 * @param maxLineBytes - a longer line is an error; default: that of `PolicyLimits`
 */
export function answerReader(
  contentType: string,
  maxLineBytes: number = defaultPolicyLimits.maxLineBytes,
): AnswerReader {
  return new EventsOrJson(/json/i.test(contentType), maxLineBytes)
}

class EventsOrJson implements AnswerReader {
  readonly #isJsonType: boolean
  readonly #maxBytes: number
  #reader: AnswerReader | undefined

  constructor(isJsonType: boolean, maxBytes: number) {
    this.#isJsonType = isJsonType
    this.#maxBytes = maxBytes
  }

  get ended(): boolean {
    return this.#reader?.ended ?? false
  }

  get finished(): boolean {
    return this.#reader?.finished ?? false
  }

  add(pieces: readonly Uint8Array[]): void {
    this.#reader ??= this.#readerOf(pieces)
    this.#reader?.add(pieces)
  }

  end(): void {
    this.#reader ??= this.#isJsonType
      ? new JsonAnswer(this.#maxBytes)
      : new AnswerEvents(this.#maxBytes)
    this.#reader.end()
  }

  take(): readonly ChatCompletionChunk[] {
    return this.#reader?.take() ?? []
  }

  /** Undefined while there is nothing but white space, which both forms skip. */
  #readerOf(pieces: readonly Uint8Array[]): AnswerReader | undefined {
    const first = firstCharacter(pieces)
    if (first === undefined) return undefined
    const isWhole = '{["'.includes(first) || (this.#isJsonType && !fieldStarts.includes(first))
    return isWhole ? new JsonAnswer(this.#maxBytes) : new AnswerEvents(this.#maxBytes)
  }
}

/** How the fields of events begin: `data`, `event`, `id`, `retry` and comments. No JSON does. */
const fieldStarts = 'deir:'

function firstCharacter(pieces: readonly Uint8Array[]): string | undefined {
  for (const piece of pieces) {
    // A byte order mark is white space to neither.
    const byte = piece.find((code) => code > 0x20 && code < 0x7f)
    if (byte !== undefined) return String.fromCharCode(byte)
  }
  return undefined
}

/** An answer as server-sent events. */
class AnswerEvents implements AnswerReader {
  readonly #text = new AnswerText()
  readonly #parser: EventSourceParser
  #chunks: ChatCompletionChunk[] = []
  #hasSaid = false
  /** Whether a finish reason came behind what was said, so that the answer is whole. */
  #hasFinishReason = false
  /** Whether one came before: what follows is whole at `[DONE]` only. */
  #hasEarlyReason = false
  /** Whether the bytes have ended, so that the last event may be cut. */
  #isOver = false
  ended = false

  constructor(maxLineBytes: number) {
    this.#parser = createParser({
      maxBufferSize: Math.min(maxLineBytes, Number.MAX_SAFE_INTEGER),
      onEvent: (event) => this.#read(event),
      onError: ({ type, line = '' }) => {
        if (type === 'max-buffer-size-exceeded') throw tooLong('a line', maxLineBytes)
        const isCut = this.#isOver && this.#hasFinishReason
        // Servers report failures in lines of no event: an `error:` field, bare JSON, the text of a gateway.
        if (type !== 'unknown-field' || this.ended || isCut) return
        if (isFailureLine(line)) throw noEvent(line)
      },
    })
  }

  get finished(): boolean {
    return this.ended || this.#hasFinishReason
  }

  add(pieces: readonly Uint8Array[]): void {
    for (const piece of pieces) this.#parser.feed(this.#text.decode(piece))
  }

  end(): void {
    this.#isOver = true
    // Some servers omit the empty line that ends the last event.
    if (!this.ended) this.#parser.feed(`${this.#text.rest()}\n\n`)
    if (this.finished || (this.#hasEarlyReason && !this.#hasSaid)) return
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
    this.ended ||= data.trim() === '[DONE]'
    if (this.ended || isPing(event, data)) return
    // Only usage can follow the finish reason.
    if (this.#isOver && this.#hasFinishReason && parseJson(data) === undefined) return
    const chunk = parseObject(data) as ChatCompletionChunk
    if (isPingData(chunk)) return
    assertNoFailure(chunk, event)
    if (!isPartOfAnswer(chunk)) return
    const choices: unknown = chunk.choices
    // The accumulator reports malformed chunks.
    if (Array.isArray(choices)) this.#noteEnd(chunk.choices)
    this.#chunks.push(chunk)
  }

  #noteEnd(choices: ChatCompletionChunk['choices']): void {
    this.#hasSaid ||= choices.some((choice) => {
      const said = choice?.delta ?? choice?.['message']
      return typeof said === 'object' && said !== null && saysSomething(said as ChatDelta)
    })
    if (!choices.some(hasFinishReason)) return
    if (this.#hasSaid) this.#hasFinishReason = true
    else this.#hasEarlyReason = true
  }
}

/** An answer as one JSON object, from endpoints that do not stream. */
class JsonAnswer implements AnswerReader {
  readonly ended = false
  readonly finished = false
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
    const completion = parseObject(this.#json + this.#text.rest()) as ChatCompletion
    assertNoFailure(completion)
    assertIsAnswer(completion)
    this.#chunks = [{ ...completion, object: 'chat.completion.chunk' }]
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

/** The deepest nesting of an answer. Writing JSON of more than about 5,000 levels ends in an overflow of the stack. */
const maxDepth = 500

/** Whether a JSON text may be nested more deeply than an answer ever is. */
function isTooDeep(text: string): boolean {
  if (text.length <= 2 * maxDepth) return false
  let depth = 0
  let isText = false
  for (let at = 0; at < text.length; at += 1) {
    const sign = text.charCodeAt(at)
    if (isText) {
      if (sign === 0x5c) at += 1
      else if (sign === 0x22) isText = false
    } else if (sign === 0x22) isText = true
    else if (sign === 0x7b || sign === 0x5b) {
      if ((depth += 1) > maxDepth) return true
    } else if (sign === 0x7d || sign === 0x5d) depth -= 1
  }
  return false
}

/** The accumulator checks what it contains. */
function parseObject(text: string): object {
  if (isTooDeep(text)) {
    throw new OsmosisError(
      'policy_stream_error',
      `The policy sent JSON with more than ${maxDepth} levels: ${text.slice(0, 200)}`,
    )
  }
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

function noEvent(line: string): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent a line that is not part of an event: ${line.slice(0, 200)}`,
  )
}

function tooLong(what: string, maxBytes: number): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent ${what} of more than ${maxBytes} bytes. policyLimits.maxLineBytes in the workflow's config sets this limit.`,
  )
}

function notUtf8(text: string, cause: unknown): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent bytes that are not UTF-8 text: ${text.slice(0, 200)}`,
    { cause },
  )
}
