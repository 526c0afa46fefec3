import { errorMessage, isOsmosisError, OsmosisError } from '../../errors.ts'
import type { ResponseBody, HttpResponse } from '../../http/response.ts'
import { type LongTimer, startTimer } from '../../http/waiting.ts'
import { bodyText, contentText, readableText } from '../../http/error-body.ts'
import type { ChatCompletionChunk } from '../chat-completion.ts'
import { type AnswerReader, answerReader } from './answer-reader.ts'
import { defaultPolicyLimits, type PolicyLimits } from './answer-limits.ts'

/** How much of an unexpected answer its error can quote. Bytes. */
const maxQuotedBytes = 4096

/**
 * The chunks of one answer, streamed or as a single JSON object, in the batches in which they arrive. Not a
 * generator: each generator that a chunk passes through costs as much as parsing it. The caller closes it.
 */
export class PolicyAnswer {
  readonly #body: ResponseBody
  readonly #reader: AnswerReader
  readonly #silenceMs: number
  readonly #maxBytes: number
  #bytes = 0
  /** What came before the first chunk, as far as it is short. */
  #head: string | undefined = ''
  /** Whether the connection has ended, in whatever way. */
  #isLost = false
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
  #reset = false

  constructor(answer: HttpResponse, limits: Required<PolicyLimits> = defaultPolicyLimits) {
    const { contentType, body } = answer
    this.#body = body
    if (!/^$|json|event-stream/i.test(contentType)) this.#beginning = new AnswerBeginning(answer)
    this.#reader = answerReader(contentType, limits.maxLineBytes)
    this.#silenceMs = limits.silenceSeconds * 1000
    this.#maxBytes = limits.maxAnswerBytes
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
      const isOver = this.#reader.ended || this.#ended
      const pieces = isOver ? undefined : await this.#nextPieces()
      if (pieces !== undefined) return this.#add(pieces)
      this.#isLost = true
      if (!this.#ended && !this.#reset) this.#reader.end()
    } catch (error) {
      const explained = this.#explained(toStreamError(error))
      if (this.#isLost && onlyKeepsAlive(this.#head)) lostBeforeAnswers.add(explained)
      throw explained
    }
    this.#ended = true
    const last = this.#reader.take()
    if (last.length > 0) return last
    this.#complete = true
    this.#silence.clear()
    // Not closed, so that the next call can use the connection.
    if (!this.#reset) this.#body.drain()
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
    } catch (error) {
      this.#isLost = !isOsmosisError(error)
      // Only usage can follow the finish reason.
      if (!this.#reader.finished) throw error
      this.#reset = true
      return undefined
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
      for (const { length } of pieces) this.#bytes += length
      if (this.#bytes > this.#maxBytes) throw tooLong(this.#maxBytes)
      this.#reader.add(pieces)
    } catch (error) {
      this.#error = toStreamError(error)
    }
    const chunks = this.#reader.take()
    if (chunks.length > 0) {
      this.#beginning = undefined
      this.#head = undefined
    } else if (this.#head !== undefined) {
      this.#head = (this.#head + Buffer.concat(pieces).toString('latin1')).slice(0, maxQuotedBytes)
    }
    return chunks
  }

  /** The error of an answer with another content type and without chunks quotes the answer instead. */
  #explained(error: OsmosisError): OsmosisError {
    const text = this.#beginning?.text
    return text ? new OsmosisError('policy_stream_error', text, { cause: error }) : error
  }
}

/** Whether a text has nothing but comments of server-sent events, with which servers keep connections alive. */
function onlyKeepsAlive(text: string | undefined): boolean {
  return text !== undefined && text.split(/[\r\n]/).every((line) => line === '' || line[0] === ':')
}

const lostBeforeAnswers = new WeakSet<OsmosisError>()

/**
 * Whether an error says that the connection ended after its status and before any event: servers send both at once,
 * and then let requests wait. The server has answered nothing, so that the request can be sent again.
 */
export function isLostBeforeAnswer(error: unknown): boolean {
  return error instanceof OsmosisError && lostBeforeAnswers.has(error)
}

/** The first bytes of an answer with an unexpected content type. */
class AnswerBeginning {
  readonly #answer: HttpResponse
  readonly #pieces: Uint8Array[] = []
  #bytes = 0

  constructor(answer: HttpResponse) {
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

/** The error of a malformed part of an answer. */
export function unreadable(what: string, sent: object, cause: unknown): OsmosisError {
  if (isOsmosisError(cause)) return cause
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent ${what} that cannot be read: ${JSON.stringify(sent).slice(0, 200)}`,
    { cause },
  )
}

function tooLong(maxBytes: number): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent an answer of more than ${maxBytes} bytes. policyLimits.maxAnswerBytes in the workflow's config sets this limit.`,
  )
}

function silent(seconds: number): OsmosisError {
  return new OsmosisError(
    'policy_stream_error',
    `The policy sent nothing for ${seconds} s in the middle of its answer: an incomplete answer is not used. policyLimits.silenceSeconds in the workflow's config sets this limit.`,
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
