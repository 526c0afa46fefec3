import { errorMessage } from '../error-category.ts'
import { beginningOf, errorTextBytes } from '../http/error-text.ts'
import type { ChatCompletion, ChatLogprobs, ChatMessage, ChatUsage } from './chat-completion.ts'
import { ConversationTree, pathTo, type MessageNode } from './conversation-tree.ts'

/** One model call of a sample, measured. */
export interface PolicyCall {
  /** Id of the answer; null when there is none, or it has no id. */
  readonly id: string | null
  /** When the request was made. Milliseconds since the epoch. */
  readonly startedAt: number
  /** From the request to the end of the answer, retries included. Milliseconds. */
  readonly durationMs: number
  /** From the request to the first chunk of the answer. Milliseconds. */
  readonly timeToFirstChunkMs: number | null
  /** How often the request was sent. */
  readonly attempts: number
  /**
   * Whether the request continued a conversation of this sample as it stood, or was its first.
   * False where history was rewritten or another conversation was started: trainers split there.
   */
  readonly extendsPrevious: boolean
  readonly finishReason: string | null
  readonly usage: ChatUsage | null
  readonly model: string | null
  readonly promptTokenIds: readonly number[] | null
  readonly completionTokenIds: readonly number[] | null
  readonly logprobs: ChatLogprobs | null
  /** Why there is no answer; null when there is one. */
  readonly error: string | null
  /** Where the answer is in the sample's `trajectoryMessages`; null when it is not in them. */
  readonly answerIndex: number | null
}

/** A call as it was measured, before anybody asks for the conversation it belongs to. */
export type MeasuredCall = Omit<PolicyCall, 'answerIndex'>

interface LoggedCall {
  /** The last message of the request, then the answer. */
  end: MessageNode
  readonly extendsPrevious: boolean
  settled: MeasuredCall | undefined
}

/** A call that has ended. */
export interface SettledCall extends Readonly<LoggedCall> {
  readonly settled: MeasuredCall
}

/** Everything the policy was asked and said under one sample id. */
export class CallLog {
  readonly #tree = new ConversationTree()
  readonly #calls: LoggedCall[] = []

  /** Notes a call that is about to be made. */
  begin(messages: readonly ChatMessage[]): CallRecorder {
    const end = this.#tree.follow(messages)
    let extendsPrevious = this.#calls.length === 0
    for (const node of pathTo(end)) {
      if (!node.isTip) continue
      node.isTip = false
      extendsPrevious = true
    }
    const logged: LoggedCall = { end, extendsPrevious, settled: undefined }
    this.#calls.push(logged)
    return new CallRecorder(this.#tree, logged)
  }

  /** Number of calls made, failed ones included. */
  get size(): number {
    return this.#calls.length
  }

  /** Whether a call has started that has not ended. */
  get isBusy(): boolean {
    return this.#calls.some(({ settled }) => settled === undefined)
  }

  /** The finished calls, in the order they were made. */
  get calls(): readonly SettledCall[] {
    return this.#calls.filter((call): call is SettledCall => call.settled !== undefined)
  }

  /**
   * The last message of each conversation, in the order of their latest calls. Most samples hold
   * one; rewritten histories, sub-agents and repeated sampling make more.
   */
  conversationEnds(): MessageNode[] {
    const ends = new Set<MessageNode>()
    for (const { end } of this.#calls) {
      ends.delete(end)
      ends.add(end)
    }
    for (const end of ends) {
      for (let at = end.parent; at !== undefined; at = at.parent) ends.delete(at)
    }
    return [...ends]
  }
}

/** Takes down how one call went. */
export class CallRecorder {
  readonly #tree: ConversationTree
  readonly #logged: LoggedCall
  readonly #startedAt = Date.now()
  readonly #start = performance.now()
  #firstChunkMs: number | null = null
  /** How often the request was sent so far. */
  attempts = 0

  constructor(tree: ConversationTree, logged: LoggedCall) {
    this.#tree = tree
    this.#logged = logged
  }

  /** Whether it is known how the call ended. */
  get settled(): boolean {
    return this.measured !== undefined
  }

  /** How it went; undefined until it has ended. */
  get measured(): MeasuredCall | undefined {
    return this.#logged.settled
  }

  /** The request's messages as a JSON array, with the policy's turns in its own words. Until it has ended. */
  messagesJson(): string {
    // By `+`, which copies nothing yet: the body as a whole is copied once, when it is sent.
    let json = ''
    for (const node of pathTo(this.#logged.end)) json += json === '' ? node.json : `,${node.json}`
    return `[${json}]`
  }

  firstChunk(): void {
    this.#firstChunkMs ??= performance.now() - this.#start
  }

  /** `hasOwnIds`: the agent knows the tool calls of the answer by other ids. */
  succeed(completion: ChatCompletion, hasOwnIds = false): void {
    const [choice] = completion.choices
    if (choice === undefined) return
    const logged = this.#logged
    logged.end = this.#tree.answer(logged.end, choice.message, hasOwnIds)
    this.#settle(completion, null)
  }

  fail(error: unknown): void {
    this.#settle(undefined, beginningOf(errorMessage(error), errorTextBytes))
  }

  #settle(completion: ChatCompletion | undefined, error: string | null): void {
    const choice = completion?.choices[0]
    this.#logged.end.isTip = true
    this.#logged.settled = {
      startedAt: this.#startedAt,
      durationMs: performance.now() - this.#start,
      timeToFirstChunkMs: this.#firstChunkMs,
      attempts: this.attempts,
      extendsPrevious: this.#logged.extendsPrevious,
      id: completion?.id || null,
      finishReason: choice?.finish_reason ?? null,
      usage: completion?.usage ?? null,
      model: completion?.model || null,
      promptTokenIds: completion?.prompt_token_ids ?? null,
      completionTokenIds: choice?.token_ids ?? null,
      logprobs: choice?.logprobs ?? null,
      error,
    }
  }
}
