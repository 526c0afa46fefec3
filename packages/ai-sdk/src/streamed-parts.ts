import type { ChatCompletionChunk } from '@osmosis/core/policy'

import type { GenerateResult, StreamPart } from './language-model-types.ts'

type ToolCallDelta = NonNullable<
  NonNullable<ChatCompletionChunk['choices'][number]['delta']>['tool_calls']
>[number]

interface ToolInput {
  readonly id: string
  readonly index: number | undefined
  toolName: string
  /** What came before the name, which the SDK wants first. */
  waiting: string
  started: boolean
}

/** The chunks of an answer as parts for those who read it while it comes. */
export class StreamedParts {
  readonly #emit: (part: StreamPart) => void
  readonly #inputs: ToolInput[] = []
  #block: { type: 'text' | 'reasoning'; id: string } | undefined
  #blocks = 0

  constructor(emit: (part: StreamPart) => void) {
    this.#emit = emit
  }

  add(chunk: ChatCompletionChunk): void {
    const delta = chunk.choices?.find(({ index }) => (index ?? 0) === 0)?.delta
    if (!delta) return
    this.#addText('reasoning', delta.reasoning_content ?? delta.reasoning)
    this.#addText('text', delta.content)
    this.#addText('text', delta.refusal)
    for (const call of delta.tool_calls ?? []) this.#addInput(call)
  }

  /** The answer as a whole: its tool calls, and what is said behind all parts. */
  end({ content, response, finishReason, usage, providerMetadata }: GenerateResult): void {
    this.#endBlock()
    for (const part of content) {
      if (part.type !== 'tool-call') continue
      const input = this.#inputs.find(({ id }) => id === part.toolCallId)
      if (input?.started) this.#emit({ type: 'tool-input-end', id: input.id })
      this.#emit(part)
    }
    const { id, modelId, timestamp } = response ?? {}
    this.#emit({ type: 'response-metadata', id, modelId, timestamp } as StreamPart)
    this.#emit({ type: 'finish', finishReason, usage, providerMetadata } as StreamPart)
  }

  #addText(type: 'text' | 'reasoning', delta: unknown): void {
    if (typeof delta !== 'string' || delta === '') return
    if (this.#block?.type !== type) {
      this.#endBlock()
      this.#block = { type, id: String((this.#blocks += 1)) }
      this.#emit({ type: `${type}-start`, id: this.#block.id })
    }
    this.#emit({ type: `${type}-delta`, id: this.#block.id, delta })
  }

  #endBlock(): void {
    if (this.#block) this.#emit({ type: `${this.#block.type}-end`, id: this.#block.id })
    this.#block = undefined
  }

  #addInput(delta: ToolCallDelta): void {
    const input = this.#inputOf(delta)
    if (input === undefined) return
    input.toolName ||= delta.function?.name ?? ''
    input.waiting += delta.function?.arguments ?? ''
    const { id, toolName, waiting } = input
    if (toolName === '') return
    if (!input.started) this.#emit({ type: 'tool-input-start', id, toolName })
    input.started = true
    if (waiting !== '') this.#emit({ type: 'tool-input-delta', id, delta: waiting })
    input.waiting = ''
  }

  /** Each call has an id where it begins, and keeps it: the policy client sees to that. */
  #inputOf({ id, index }: ToolCallDelta): ToolInput | undefined {
    const known = this.#inputs.findLast((input) =>
      id ? input.id === id : typeof index !== 'number' || input.index === index,
    )
    if (known || !id) return known
    const input = { id, index, toolName: '', waiting: '', started: false }
    this.#inputs.push(input)
    return input
  }
}
