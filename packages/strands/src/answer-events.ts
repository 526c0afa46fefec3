import type { ChatCompletion, ChatCompletionChunk, ChatUsage } from '@osmosis/core/policy'
import type { ModelStreamEvent, StopReason } from '@strands-agents/sdk'

import type { TurnMemory } from './turn-memory.ts'

type BlockKind = 'text' | 'reasoning'

/**
 * The events of Strands that one answer of the policy becomes. Strands puts a message together from
 * one open block at a time: it would lose every tool call but the last if they came as they are
 * written, so they come whole, at the end. Text stays in one block, white space at its edges
 * included: Strands drops blocks that are nothing but white space.
 */
export class AnswerEvents {
  readonly #memory: TurnMemory
  readonly #onLength: 'throw' | 'stop'
  readonly #start = performance.now()
  #firstChunkMs: number | undefined
  #open: BlockKind | undefined
  /** Text that is white space only, and thinking that came after text. */
  readonly #held = { text: '', reasoning: '' }

  constructor(memory: TurnMemory, onLength: 'throw' | 'stop') {
    this.#memory = memory
    this.#onLength = onLength
  }

  *add(chunk: ChatCompletionChunk): Generator<ModelStreamEvent> {
    if (this.#firstChunkMs === undefined) {
      this.#firstChunkMs = performance.now() - this.#start
      // Whether or not the endpoint names a role: without one Strands finds no message.
      yield { type: 'modelMessageStartEvent', role: 'assistant' }
    }
    const delta = chunk.choices?.find(({ index }) => (index ?? 0) === 0)?.delta
    // vLLM sends its thinking under both names while it renames the field.
    const thinking = delta?.reasoning_content || delta?.reasoning
    if (thinking) yield* this.#reasoning(thinking)
    if (delta?.content) yield* this.#text(delta.content)
  }

  /** What comes after the last chunk: tool calls, usage and why the policy stopped. */
  *end({ choices, usage }: ChatCompletion): Generator<ModelStreamEvent> {
    const [choice] = choices
    const { tool_calls: calls = [], refusal } = choice?.message ?? {}
    if (refusal) yield* this.#text(refusal)
    yield* this.#close()
    if (this.#held.reasoning) {
      yield* this.#block('reasoning', this.#held.reasoning)
      yield* this.#close()
    }
    const stopReason = this.#stopReason(choice?.finish_reason, calls.length > 0)
    for (const call of calls) {
      if (stopReason === 'length') {
        yield* this.#block('text', incompleteCallNote(call.function.name))
        yield* this.#close()
        continue
      }
      const { id, input } = this.#memory.noteCall(call)
      const start = { type: 'toolUseStart', name: call.function.name, toolUseId: id } as const
      yield { type: 'modelContentBlockStartEvent', start }
      yield { type: 'modelContentBlockDeltaEvent', delta: { type: 'toolUseInputDelta', input } }
      yield { type: 'modelContentBlockStopEvent' }
    }
    if (usage) yield this.#metadata(usage)
    yield { type: 'modelMessageStopEvent', stopReason }
  }

  *#text(text: string): Generator<ModelStreamEvent> {
    this.#held.text += text
    if (this.#open !== 'text' && this.#held.text.trim() === '') return
    yield* this.#block('text', this.#held.text)
    this.#held.text = ''
  }

  *#reasoning(text: string): Generator<ModelStreamEvent> {
    if (this.#open === 'text') this.#held.reasoning += text
    else yield* this.#block('reasoning', text)
  }

  *#block(kind: BlockKind, text: string): Generator<ModelStreamEvent> {
    if (this.#open !== kind) {
      yield* this.#close()
      this.#open = kind
      yield { type: 'modelContentBlockStartEvent' }
    }
    const type = kind === 'text' ? 'textDelta' : 'reasoningContentDelta'
    yield { type: 'modelContentBlockDeltaEvent', delta: { type, text } }
  }

  *#close(): Generator<ModelStreamEvent> {
    if (this.#open === undefined) return
    this.#open = undefined
    yield { type: 'modelContentBlockStopEvent' }
  }

  #metadata(usage: ChatUsage): ModelStreamEvent {
    const details = usage['prompt_tokens_details'] as { cached_tokens?: number } | null | undefined
    const { prompt_tokens: inputTokens, completion_tokens: outputTokens } = usage
    return {
      type: 'modelMetadataEvent',
      usage: {
        inputTokens,
        outputTokens,
        totalTokens: usage.total_tokens ?? inputTokens + outputTokens,
        ...(details?.cached_tokens ? { cacheReadInputTokens: details.cached_tokens } : {}),
      },
      metrics: {
        latencyMs: performance.now() - this.#start,
        ...(this.#firstChunkMs === undefined ? {} : { timeToFirstByteMs: this.#firstChunkMs }),
      },
    }
  }

  #stopReason(finishReason: string | null | undefined, callsTools: boolean): StopReason {
    if (finishReason === 'length') return this.#onLength === 'stop' ? 'length' : 'maxTokens'
    if (finishReason === 'content_filter') return 'contentFiltered'
    // Servers say `stop` beside tool calls, e.g. vLLM with a named tool_choice.
    return callsTools ? 'toolUse' : 'endTurn'
  }
}

/**
 * What replaces a tool call that the token limit cut off, as in Strands for Python:
 * the call is not executed, and endpoints refuse a conversation with calls that have no results.
 */
export function incompleteCallNote(toolName: string): string {
  return `The selected tool ${toolName || '<unknown>'}'s tool use was incomplete due to maximum token limits being reached.`
}
