import { errorMessage } from '../../errors.ts'
import { CallAliases } from '../call-aliases.ts'
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
} from '../chat-completion.ts'
import { AnswerBuilder } from './answer-builder.ts'
import { defaultPolicyLimits } from './answer-limits.ts'
import { SentEvents } from './sent/sent-events.ts'
import { normalise, SentSoFar } from './sent/server-habits.ts'

/** Options of a {@link StreamedAnswer}. */
export interface StreamedAnswerOptions {
  /** The request that is answered: the tools that it offers. Default: none. */
  readonly request?: Partial<ChatCompletionRequest> | undefined
  /** Of the sample. Default: those of one answer alone. */
  readonly aliases?: CallAliases | undefined
  /** A longer line is an error. Bytes; default: that of `PolicyLimits`. */
  readonly maxLineBytes?: number | undefined
}

/** An answer of the policy, from its bytes to chunks and to a whole, as the agent gets both. */
export class StreamedAnswer {
  /** What has been read so far. */
  readonly built: AnswerBuilder
  /** Whether everything has been read. */
  isOver = false
  readonly #events: SentEvents
  readonly #sent = new SentSoFar()

  constructor(contentType: string, options: StreamedAnswerOptions = {}) {
    const { request = {}, aliases, maxLineBytes = defaultPolicyLimits.maxLineBytes } = options
    this.built = new AnswerBuilder(request, aliases ?? new CallAliases())
    this.#events = new SentEvents(contentType, maxLineBytes)
  }

  /** To be called with bytes as they arrive. */
  add(pieces: readonly Uint8Array[]): void {
    this.#events.add(pieces)
  }

  /** To be called behind the last byte, when everything before it has been read. */
  end(): void {
    this.#events.end()
  }

  /**
   * The next chunk; undefined until more bytes have arrived.
   *
   * @throws OsmosisError with code `policy_stream_error`, also for an answer that is not whole when it is over
   */
  read(): ChatCompletionChunk | undefined {
    for (let event = this.#next(); event !== undefined; event = this.#next()) {
      const part = normalise(event, this.#sent)
      if (part !== undefined) return this.built.add(part)
    }
    if (this.isOver || !this.#events.isOver) return undefined
    this.isOver = true
    const rest = this.built.end(this.#events.isDone)
    this.#sent.assertAnswered()
    return rest
  }

  #next(): ReturnType<SentEvents['next']> {
    try {
      return this.#events.next()
    } catch (error) {
      // Only usage can follow the finish reason, so half an event there is not needed.
      if (this.built.hasEnded && this.#events.isCut) return undefined
      throw error
    }
  }
}

/** Receives the result of a {@link PassingAnswer}: one call of `onAnswer` or `onBroken`. */
export interface AnswerListener {
  onFirstChunk?(): void
  /** `hasOwnIds`: tool calls had no ids, so the agent has other ones for them. */
  onAnswer(completion: ChatCompletion, hasOwnIds: boolean): void
  /** The answer was incomplete or malformed. */
  onBroken(reason: string): void
}

/**
 * Reads an answer of the policy from bytes that are forwarded to another reader. It ends with `[DONE]`, which
 * may be long before the connection ends. Errors go to the listener; nothing throws.
 */
export class PassingAnswer {
  readonly #answer: StreamedAnswer
  readonly #listener: AnswerListener
  #started = false
  #over = false

  constructor(contentType: string, listener: AnswerListener) {
    this.#answer = new StreamedAnswer(contentType)
    this.#listener = listener
  }

  add(piece: Uint8Array): void {
    // Behind a failure nobody reads what would be kept here.
    if (this.#over) return
    this.#answer.add([piece])
    this.#read()
  }

  /** To be called when the policy has sent everything. */
  end(): void {
    this.#answer.end()
    this.#read()
  }

  /** To be called when the connection broke or its reader stopped. */
  breakOff(reason: string): void {
    // Only usage can follow the finish reason.
    if (this.#answer.built.hasEnded) this.#finish()
    else this.#fail(reason)
  }

  #read(): void {
    if (this.#over) return
    try {
      while (this.#answer.read() !== undefined) {
        if (!this.#started) this.#listener.onFirstChunk?.()
        this.#started = true
      }
    } catch (error) {
      this.#fail(errorMessage(error))
    }
    if (this.#answer.isOver) this.#finish()
  }

  #finish(): void {
    if (this.#over) return
    this.#over = true
    const { built } = this.#answer
    this.#listener.onAnswer(built.recorded(), built.hasOwnIds)
  }

  #fail(reason: string): void {
    if (this.#over) return
    this.#over = true
    this.#listener.onBroken(reason)
  }
}
