import { errorMessage, isOsmosisError, type OsmosisError } from '../../errors.ts'
import { bodyText, noCompletion, readableText } from '../../http/error-body.ts'
import type { HttpResponse } from '../../http/response.ts'
import { type LongTimer, startTimer } from '../../http/waiting.ts'
import type { ChatCompletionChunk } from '../chat-completion.ts'
import type { AnswerBuilder } from './answer-builder.ts'
import type { PolicyLimits } from './answer-limits.ts'
import { beyondLimit, brokenAnswer } from './sent/broken-answer.ts'
import { phrases, says } from './sent/words.ts'
import { StreamedAnswer, type StreamedAnswerOptions } from './streamed-answer.ts'

/** How much of an unexpected answer its error can quote. Bytes. */
const maxQuotedBytes = 4096

/** How long the usage is waited for behind an answer whose reader has left. */
const maxUsageMs = 1000

const expectedTypes = phrases('json, ndjson, event stream')

/**
 * One answer to a request, read within its limits. Not a generator: each generator that a chunk passes through costs as
 * much as parsing it. The caller closes it.
 */
export class PolicyAnswer {
  readonly #response: HttpResponse
  readonly #limits: Required<PolicyLimits>
  readonly #answer: StreamedAnswer
  #first: ChatCompletionChunk | undefined
  #bytes = 0
  /** What came before the first chunk, for errors to quote: only its beginning if it is long; undefined behind that. */
  #head: Uint8Array[] | undefined = []
  readonly #keptAlive = new KeptAlive()
  /** Whether the server ended the connection, or it broke. False for limits and aborts, by which this side ends it. */
  #isLost = false
  #silence: LongTimer
  /** When the reader started to wait for bytes; undefined while it does not. */
  #waitingSince: number | undefined

  constructor(
    response: HttpResponse,
    limits: Required<PolicyLimits>,
    options: StreamedAnswerOptions,
  ) {
    this.#response = response
    this.#limits = limits
    const { maxLineBytes, silenceSeconds } = limits
    this.#answer = new StreamedAnswer(response.contentType, { ...options, maxLineBytes })
    this.#silence = startTimer(silenceSeconds * 1000, () => this.#checkSilence())
  }

  /** What has been read so far. */
  get built(): AnswerBuilder {
    return this.#answer.built
  }

  /**
   * Waits for the first chunk, which `read` returns. Events that only keep the connection alive are no answer. Closes the
   * answer when there is none.
   */
  async begin(): Promise<void> {
    try {
      do this.#first = this.read()
      while (this.#first === undefined && (await this.more()))
    } catch (error) {
      this.close()
      throw error
    }
  }

  /**
   * The next chunk that has arrived, as the agent gets it; undefined until more bytes have.
   *
   * @throws OsmosisError with code `policy_stream_error`
   */
  read(): ChatCompletionChunk | undefined {
    try {
      const chunk = this.#first ?? this.#answer.read()
      this.#first = undefined
      if (chunk !== undefined) this.#head = undefined
      return chunk
    } catch (error) {
      throw this.#explained(error)
    }
  }

  /**
   * Waits for more bytes. Resolves with whether there is more to read.
   *
   * @throws OsmosisError with code `policy_stream_error`
   */
  async more(): Promise<boolean> {
    if (this.#answer.isOver) return false
    let pieces: readonly Uint8Array[] | undefined
    this.#waitingSince = performance.now()
    try {
      pieces = await this.#response.body.next()
    } catch (error) {
      // Only usage can follow the finish reason.
      if (this.built.hasEnded) return false
      this.#isLost = !isOsmosisError(error)
      throw this.#explained(error)
    } finally {
      this.#waitingSince = undefined
    }
    if (pieces !== undefined) this.#add(pieces)
    else {
      this.#isLost = true
      this.#answer.end()
    }
    return true
  }

  /**
   * Reads what follows the finish reason when nobody else does: the record has the usage, and limits of the rollout count it. Waits at
   * most a second for it.
   */
  async readUsage(): Promise<void> {
    const timer = startTimer(maxUsageMs, () => this.#response.body.destroy())
    try {
      do {
        while (this.read() !== undefined);
      } while (await this.more())
    } catch {
      // The answer is whole without what follows it.
    } finally {
      timer.clear()
    }
  }

  /** Closes the connection, unless the answer was read to its end, so that the next call can use it. */
  close(): void {
    this.#silence.clear()
    if (this.#answer.isOver) this.#response.body.drain()
    else this.#response.body.destroy()
  }

  /** One timer for the whole answer, which rearms itself: starting one for each piece costs more. */
  #checkSilence(): void {
    const { silenceSeconds } = this.#limits
    const waited = this.#waitingSince === undefined ? 0 : performance.now() - this.#waitingSince
    const leftMs = silenceSeconds * 1000 - waited
    if (leftMs > 0) this.#silence = startTimer(leftMs, () => this.#checkSilence())
    else {
      const silence = `nothing for ${silenceSeconds} s in the middle of its answer: an incomplete answer is not used`
      this.#response.body.destroy(beyondLimit(silence, 'silenceSeconds'))
    }
  }

  #add(pieces: readonly Uint8Array[]): void {
    const { maxAnswerBytes } = this.#limits
    for (const piece of pieces) {
      if (this.#head && this.#bytes < maxQuotedBytes) this.#head.push(piece)
      this.#keptAlive.add(piece)
      this.#bytes += piece.length
    }
    if (this.#bytes > maxAnswerBytes) {
      const error = beyondLimit(`an answer of more than ${maxAnswerBytes} bytes`, 'maxAnswerBytes')
      throw this.#explained(error)
    }
    this.#answer.add(pieces)
  }

  #explained(error: unknown): OsmosisError {
    const failure = isOsmosisError(error)
      ? error
      : brokenAnswer(`The answer of the policy broke off: ${errorMessage(error)}`, error)
    if (this.#head === undefined) return failure
    const head = Buffer.concat(this.#head)
    const explained = this.#quoting(head, failure)
    if (this.#isLost && this.#keptAlive.isAll) lostBeforeAnswers.add(explained)
    return explained
  }

  /** The error of an answer with another content type and without chunks quotes the answer. */
  #quoting(head: Buffer, failure: OsmosisError): OsmosisError {
    const { contentType } = this.#response
    if (contentType === '' || says(contentType, expectedTypes)) return failure
    const text = readableText(bodyText(head, this.#response))
    if (text === '') return failure
    return brokenAnswer(`The policy ${noCompletion(this.#response, text)}`, failure)
  }
}

const [lineFeed, carriageReturn, colon] = Buffer.from('\n\r:')

/** Recognises comments of server-sent events, with which servers keep connections alive, in any number of pieces. */
class KeptAlive {
  /** Whether all bytes so far are comments and blank lines. */
  isAll = true
  #isInComment = false

  add(piece: Uint8Array): void {
    if (!this.isAll) return
    for (const byte of piece) {
      if (byte === lineFeed || byte === carriageReturn) this.#isInComment = false
      else if (byte === colon) this.#isInComment = true
      else if (!this.#isInComment) this.isAll = false
    }
  }
}

const lostBeforeAnswers = new WeakSet<object>()

/**
 * Whether an error says that the connection ended after its status and before any event: servers send both at once,
 * and then let requests wait. The server has answered nothing, so that the request can be sent again.
 */
export function isLostBeforeAnswer(error: unknown): boolean {
  return typeof error === 'object' && error !== null && lostBeforeAnswers.has(error)
}
