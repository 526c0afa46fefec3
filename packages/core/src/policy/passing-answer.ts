import type { ChatCompletion } from './chat-completion.ts'
import { errorMessage } from '../errors.ts'
import { answerReader, type AnswerReader } from './answer/answer-reader.ts'
import { CompletionAccumulator } from './answer/completion-accumulator.ts'

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
  readonly #reader: AnswerReader
  readonly #answer = new CompletionAccumulator()
  readonly #listener: AnswerListener
  #started = false
  #over = false

  constructor(contentType: string, listener: AnswerListener) {
    this.#reader = answerReader(contentType)
    this.#listener = listener
  }

  add(piece: Uint8Array): void {
    this.#read(() => this.#reader.add([piece]))
    if (this.#reader.ended) this.#finish()
  }

  /** To be called when the policy has sent everything. */
  end(): void {
    this.#read(() => this.#reader.end())
    this.#finish()
  }

  /** To be called when the connection broke or its reader stopped. */
  breakOff(reason: string): void {
    // Only usage can follow the finish reason.
    if (this.#answer.finishReason === undefined) this.#fail(reason)
    else this.#finish()
  }

  #read(step: () => void): void {
    if (this.#over) return
    try {
      try {
        step()
      } finally {
        for (const chunk of this.#reader.take()) this.#add(chunk)
      }
    } catch (error) {
      this.#fail(errorMessage(error))
    }
  }

  #add(chunk: Parameters<CompletionAccumulator['add']>[0]): void {
    if (!this.#started) this.#listener.onFirstChunk?.()
    this.#started = true
    this.#answer.add(chunk)
  }

  #finish(): void {
    this.#read(() => void this.#answer.end())
    if (this.#over) return
    this.#over = true
    this.#listener.onAnswer(this.#answer.recorded(), this.#answer.hasOwnIds)
  }

  #fail(reason: string): void {
    if (this.#over) return
    this.#over = true
    this.#listener.onBroken(reason)
  }
}
