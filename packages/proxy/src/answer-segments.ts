import type {
  ChatCompletionChunk,
  ChatToolCall,
  ChatToolCallDelta,
  ChatUsage,
} from '@osmosis/core/policy'

/** A part of an answer, which other dialects send as a block or an item of its own. */
export interface AnswerSegment {
  readonly kind: 'thinking' | 'text' | 'refusal' | 'tool'
  /** The call of a tool. Its arguments are complete when the part is closed. */
  readonly call: Readonly<ChatToolCall> | undefined
  /** Text or arguments so far. */
  text: string
}

/** A step of an answer: parts follow one another, each opened, extended and closed. */
export type SegmentStep =
  | { readonly step: 'open' | 'close'; readonly part: AnswerSegment }
  | { readonly step: 'text'; readonly part: AnswerSegment; readonly text: string }

/** How an answer ended. */
export interface PolicyAnswerEnd {
  readonly finishReason: string | null
  /** The stop sequence that ended it, where the policy names it. */
  readonly stopSequence: string | null
  readonly refused: boolean
  readonly usage: ChatUsage | undefined
}

/**
 * Orders the chunks of an answer as parts that follow one another, each of them passed on as it arrives. While a
 * tool call is open, what belongs elsewhere waits until the end: a server may still continue that call.
 */
export class AnswerSegments {
  /** By their indexes. */
  readonly #calls: ChatToolCall[] = []
  readonly #waiting: AnswerSegment[] = []
  #open: AnswerSegment | undefined
  #stopSequence: string | null = null
  #refused = false
  #finishReason: string | null = null
  #usage: ChatUsage | undefined

  /** @param chunk - as the policy client gives it to agents */
  add(chunk: ChatCompletionChunk): SegmentStep[] {
    const pieces: SegmentStep[] = []
    if (chunk.usage) this.#usage = chunk.usage
    const choice = chunk.choices?.find(({ index }) => (index ?? 0) === 0)
    const delta = choice?.delta
    this.#put(pieces, 'thinking', delta?.reasoning_content || delta?.reasoning)
    this.#put(pieces, 'text', delta?.content)
    this.#put(pieces, 'refusal', delta?.refusal)
    for (const piece of delta?.tool_calls ?? []) {
      this.#put(pieces, 'tool', piece.function?.arguments, this.#addToCall(piece))
    }
    this.#finishReason = choice?.finish_reason ?? this.#finishReason
    // vLLM: the text of the stop sequence, or the id of a stop token.
    const stop = choice?.['stop_reason']
    if (typeof stop === 'string') this.#stopSequence = stop
    return pieces
  }

  /** The rest of the answer, to be called after the last chunk. */
  rest(): SegmentStep[] {
    const pieces: SegmentStep[] = []
    this.#close(pieces)
    for (const part of this.#waiting) {
      const { text } = part
      pieces.push({ step: 'open', part })
      if (text !== '') pieces.push({ step: 'text', part, text })
      pieces.push({ step: 'close', part })
    }
    return pieces
  }

  get end(): PolicyAnswerEnd {
    return {
      finishReason: this.#finishReason,
      stopSequence: this.#stopSequence,
      refused: this.#refused,
      usage: this.#usage,
    }
  }

  /** The same object for each piece of a call. */
  #addToCall({ index = 0, id = '', function: called }: ChatToolCallDelta): ChatToolCall {
    const call = (this.#calls[index] ??= {
      id,
      type: 'function',
      function: { name: called?.name ?? '', arguments: '' },
    })
    call.function.arguments += called?.arguments ?? ''
    return call
  }

  #put(
    pieces: SegmentStep[],
    kind: AnswerSegment['kind'],
    text: string | null | undefined,
    call?: ChatToolCall,
  ): void {
    if (call === undefined && !text) return
    if (kind === 'refusal') this.#refused = true
    const own = text ?? ''
    const isSame = (part: AnswerSegment): boolean => part.kind === kind && part.call === call
    if (this.#open !== undefined && isSame(this.#open)) {
      this.#open.text += own
      if (own !== '') pieces.push({ step: 'text', part: this.#open, text: own })
      return
    }
    const mustWait = this.#waiting.length > 0 || this.#open?.kind === 'tool'
    const waiting = this.#waiting.find(isSame)
    if (waiting !== undefined) waiting.text += own
    else if (mustWait) this.#waiting.push({ kind, call, text: own })
    else {
      this.#close(pieces)
      const part: AnswerSegment = { kind, call, text: own }
      this.#open = part
      pieces.push({ step: 'open', part })
      if (own !== '') pieces.push({ step: 'text', part, text: own })
    }
  }

  #close(pieces: SegmentStep[]): void {
    if (this.#open !== undefined) pieces.push({ step: 'close', part: this.#open })
    this.#open = undefined
  }
}
