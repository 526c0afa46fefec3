import type { ChatCompletion } from './chat-completion.ts'
import { errorMessage } from '../error-category.ts'
import { answerReader, type AnswerReader } from './answer-stream.ts'
import { CompletionAccumulator } from './completion-accumulator.ts'

/** Hears how an answer went. One of the last two is called, once. */
export interface AnswerListener {
  onFirstChunk?(): void
  /** `hasOwnIds`: tool calls came without ids, so the agent knows them by other ones. */
  onAnswer(completion: ChatCompletion, hasOwnIds: boolean): void
  /** What came was no whole answer. */
  onBroken(reason: string): void
}

/**
 * Reads an answer of the policy from its bytes while they pass to somebody else. It is over as soon as
 * the policy says so, which may be long before the connection ends. Whatever is wrong with the bytes is
 * said to the listener; nothing throws.
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

  /** The policy has sent all of it. */
  end(): void {
    this.#read(() => this.#reader.end())
    this.#finish()
  }

  /** Nothing follows, because the connection broke or nobody reads on. */
  breakOff(reason: string): void {
    // Behind the finish reason only usage can follow.
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
    if (!this.#answer.sawChoice) this.#fail('The policy sent no choices.')
    if (this.#over) return
    this.#over = true
    this.#listener.onAnswer(this.#answer.completion(), this.#answer.hasOwnIds)
  }

  #fail(reason: string): void {
    if (this.#over) return
    this.#over = true
    this.#listener.onBroken(reason)
  }
}
