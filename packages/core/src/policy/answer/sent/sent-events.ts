import { createParser } from 'eventsource-parser'

import type { OsmosisError } from '../../../errors.ts'
import { parseJson } from '../../../http/json.ts'
import { beyondLimit, brokenAnswer, quoted } from './broken-answer.ts'
import { isFailureLine } from './reported-failures.ts'
import { phrases, says, wordsOf } from './words.ts'

/** An event of an answer. */
export interface SentEvent {
  readonly name: string | undefined
  readonly value: object
}

interface ArrivedEvent {
  readonly name: string | undefined
  readonly data: string
}

const json = phrases('json')
const pings = phrases('ping, keepalive, heartbeat')

/** Whether an event of this name only keeps the connection alive. */
export function isPing(name: string): boolean {
  return pings.has(wordsOf(name).join(''))
}

/**
 * Reads events from the bytes of an answer. One JSON object, from a server that does not stream, is an event and the end.
 * What cannot be read is thrown where it stands: behind the events before it.
 */
export class SentEvents {
  readonly #decoder = new TextDecoder('utf-8', { fatal: true })
  readonly #maxBytes: number
  readonly #contentType: string
  /** Undefined before the first character. */
  #isJson: boolean | undefined
  #json = ''
  #jsonBytes = 0
  /** The data of events, with their names, and errors in their places. */
  #arrived: (ArrivedEvent | OsmosisError)[] = []
  #read = 0
  readonly #parser
  /** Whether the server has said that this was all: by `[DONE]`, or by the end of a JSON object. */
  isDone = false
  /** Whether nothing more is read: behind `[DONE]`, an error, or the last byte. */
  isOver = false
  /** Whether the bytes have ended without `[DONE]`, so that what is left may be half an event. */
  isCut = false

  /** @param maxLineBytes - a longer line is an error, and a longer JSON object */
  constructor(contentType: string, maxLineBytes: number) {
    this.#contentType = contentType
    this.#maxBytes = maxLineBytes
    this.#parser = createParser({
      maxBufferSize: Math.min(maxLineBytes, Number.MAX_SAFE_INTEGER),
      onEvent: ({ event: name, data }) => {
        if (this.isOver) return
        if (data.trim() === '[DONE]') this.isDone = this.isOver = true
        else this.#arrived.push({ name, data })
      },
      onError: ({ type, line = '' }) => {
        if (type === 'max-buffer-size-exceeded') throw this.#tooLong('a line')
        // Servers report failures in lines of no event: an `error:` field, bare JSON, the text of a gateway.
        if (type !== 'unknown-field' || this.isOver || !isFailureLine(line)) return
        const message = `The policy sent a line that is not part of an event: ${quoted(line)}`
        this.#arrived.push(brokenAnswer(message))
      },
    })
  }

  add(pieces: readonly Uint8Array[]): void {
    this.#untilError(() => {
      for (const piece of pieces) this.#addText(this.#decoded(piece), piece.length)
    })
  }

  /** To be called behind the last byte. */
  end(): void {
    this.#untilError(() => {
      this.isDone = this.#isJson ?? says(this.#contentType, json)
      this.isCut = !this.isDone
      this.#decoded()
      // Some servers omit the empty line that ends the last event.
      if (this.isCut) this.#parser.feed('\n\n')
      else this.#arrived.push({ name: undefined, data: this.#json })
      this.isOver = true
    })
  }

  /**
   * The next event; undefined until more bytes have arrived.
   *
   * @throws OsmosisError with code `policy_stream_error`
   */
  next(): SentEvent | undefined {
    while (this.#read < this.#arrived.length) {
      const arrived = this.#arrived[this.#read] as ArrivedEvent | OsmosisError
      this.#read += 1
      if (arrived instanceof Error) throw arrived
      const { name, data } = arrived
      if (!keepsAlive(name, data)) return { name, value: parseObject(data) }
    }
    this.#arrived = []
    this.#read = 0
    return undefined
  }

  /** An error is the last that is read. */
  #untilError(read: () => void): void {
    if (this.isOver) return
    try {
      read()
    } catch (error) {
      this.#arrived.push(error as OsmosisError)
      this.isOver = true
    }
  }

  #addText(text: string, bytes: number): void {
    this.#isJson ??= this.#isJsonBy(text)
    if (this.#isJson === false) this.#parser.feed(text)
    if (this.#isJson !== true) return
    this.#jsonBytes += bytes
    if (this.#jsonBytes > this.#maxBytes) throw this.#tooLong('a JSON answer')
    this.#json += text
  }

  /**
   * Servers and gateways confuse the content types of events and JSON, so the first character decides where it can: JSON does
   * not begin as `data`, `event`, `id`, `retry` and comments do. Undefined while there is nothing but white space.
   */
  #isJsonBy(text: string): boolean | undefined {
    const [first] = /[!-~]/.exec(text) ?? []
    if (first === undefined) return undefined
    if ('{["'.includes(first)) return true
    return !'deir:'.includes(first) && says(this.#contentType, json)
  }

  #decoded(piece?: Uint8Array): string {
    try {
      return this.#decoder.decode(piece, { stream: piece !== undefined })
    } catch (cause) {
      const text = piece ? Buffer.from(piece).toString('utf8') : 'the end of the answer'
      throw brokenAnswer(`The policy sent bytes that are not UTF-8 text: ${quoted(text)}`, cause)
    }
  }

  #tooLong(what: string): OsmosisError {
    return beyondLimit(`${what} of more than ${this.#maxBytes} bytes`, 'maxLineBytes')
  }
}

/** Whether an event only keeps the connection alive: one without data, or named so, whatever its data are. */
function keepsAlive(name: string | undefined, data: string): boolean {
  return (data.trim() === '' && name !== 'error') || (name !== undefined && isPing(name))
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

function parseObject(text: string): object {
  if (isTooDeep(text))
    throw brokenAnswer(`The policy sent JSON with more than ${maxDepth} levels: ${quoted(text)}`)
  const value = parseJson(text)
  if (typeof value === 'object' && value !== null) return value
  throw brokenAnswer(`The policy sent something that is not a JSON object: ${quoted(text)}`)
}
