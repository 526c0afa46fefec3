import type {
  AssistantMessage,
  AssistantMessageEventStream,
  Model,
  ToolCall,
  Usage,
} from '@earendil-works/pi-ai'
import { errorMessage } from '@osmosis/core'
import {
  type ChatCompletion,
  type ChatCompletionChunk,
  type ChatUsage,
  argumentsObject,
} from '@osmosis/core/policy'

type DeltaOfCall = NonNullable<
  NonNullable<ChatCompletionChunk['choices'][number]['delta']>['tool_calls']
>[number]

/** An answer of the policy as a message of Pi, and the events of it while it comes. */
export class AnswerMessage {
  readonly #events: AssistantMessageEventStream
  readonly #message: AssistantMessage
  /** The JSON texts of the calls by their places in the content. */
  readonly #calls = new Map<number, { index: number | undefined; json: string }>()
  #open: number | undefined
  #started = false

  constructor(events: AssistantMessageEventStream, { api, provider, id }: Model<string>) {
    this.#events = events
    this.#message = {
      role: 'assistant',
      content: [],
      api,
      provider,
      model: id,
      usage: usageOf(undefined),
      stopReason: 'stop',
      timestamp: Date.now(),
    }
  }

  add(chunk: ChatCompletionChunk): void {
    this.#start()
    const delta = chunk.choices?.find(({ index }) => (index ?? 0) === 0)?.delta
    if (!delta) return
    this.#addText('thinking', delta.reasoning_content ?? delta.reasoning)
    this.#addText('text', delta.content)
    this.#addText('text', delta.refusal)
    for (const call of delta.tool_calls ?? []) this.#addCall(call)
  }

  /** The whole message, once the policy has answered. */
  finish({ choices, usage, model, id }: ChatCompletion): AssistantMessage {
    this.#start()
    this.#close()
    const isCut = choices[0]?.finish_reason === 'length'
    Object.assign(this.#message, {
      usage: usageOf(usage),
      stopReason: isCut ? 'length' : this.#calls.size > 0 ? 'toolUse' : 'stop',
      ...(model ? { responseModel: model } : {}),
      ...(id ? { responseId: id } : {}),
    })
    return this.#message
  }

  end(message: AssistantMessage): void {
    const reason = message.stopReason as 'stop' | 'length' | 'toolUse'
    this.#events.push({ type: 'done', reason, message })
  }

  fail(error: unknown, isAborted: boolean): void {
    const stopReason = isAborted ? 'aborted' : 'error'
    const failed = { ...this.#message, stopReason, errorMessage: errorMessage(error) } as const
    this.#events.push({ type: 'error', reason: stopReason, error: failed })
  }

  #start(): void {
    if (!this.#started) this.#events.push({ type: 'start', partial: this.#message })
    this.#started = true
  }

  #addText(type: 'text' | 'thinking', delta: unknown): void {
    if (typeof delta !== 'string' || delta === '') return
    const { content } = this.#message
    let part = this.#open === undefined ? undefined : content[this.#open]
    if (part?.type !== type) {
      part = type === 'text' ? { type, text: '' } : { type, thinking: '' }
      this.#begin(part, `${type}_start`)
    }
    if (part.type === 'text') part.text += delta
    else if (part.type === 'thinking') part.thinking += delta
    this.#emit({ type: `${type}_delta`, delta })
  }

  /** Each call has an id where it begins, and keeps it: the policy client sees to that. */
  #addCall({ id, index, function: called }: DeltaOfCall): void {
    const { content } = this.#message
    const places = [...this.#calls]
    const known = places.findLast(([place, call]) =>
      id ? (content[place] as ToolCall).id === id : index === undefined || call.index === index,
    )
    let place = known?.[0]
    if (place === undefined) {
      if (!id) return
      place = content.length
      this.#calls.set(place, { index, json: '' })
      this.#begin({ type: 'toolCall', id, name: '', arguments: {} }, 'toolcall_start')
    }
    const part = content[place] as ToolCall
    const call = this.#calls.get(place)
    part.name ||= called?.name ?? ''
    if (!call || !called?.arguments) return
    call.json += called.arguments
    this.#emit({ type: 'toolcall_delta', delta: called.arguments }, place)
  }

  #begin(
    part: AssistantMessage['content'][number],
    type: 'text_start' | 'thinking_start' | 'toolcall_start',
  ): void {
    if (part.type !== 'toolCall') this.#closeText()
    this.#open = this.#message.content.push(part) - 1
    this.#emit({ type })
  }

  #closeText(): void {
    const part = this.#open === undefined ? undefined : this.#message.content[this.#open]
    if (part?.type === 'text') this.#emit({ type: 'text_end', content: part.text })
    if (part?.type === 'thinking') this.#emit({ type: 'thinking_end', content: part.thinking })
    this.#open = undefined
  }

  #close(): void {
    this.#closeText()
    for (const [place, { json }] of this.#calls) {
      const toolCall = this.#message.content[place] as ToolCall
      Object.assign(toolCall, argumentsOf(json))
      this.#emit({ type: 'toolcall_end', toolCall }, place)
    }
  }

  #emit(event: { type: string } & Record<string, unknown>, place = this.#open): void {
    const whole = { ...event, contentIndex: place, partial: this.#message }
    this.#events.push(whole as unknown as Parameters<AssistantMessageEventStream['push']>[0])
  }
}

/** What Pi makes of arguments that are not a JSON object: empty, and with the reason that the policy is told. */
function argumentsOf(json: string): Pick<ToolCall, 'arguments' | 'argumentsError'> {
  const object = argumentsObject(json === '' ? '{}' : json)
  return object === undefined
    ? { arguments: {}, argumentsError: `The arguments are not a JSON object: ${json}` }
    : { arguments: object as ToolCall['arguments'] }
}

/** Pi counts cached tokens apart from the others. */
function usageOf(usage: ChatUsage | undefined): Usage {
  const { prompt_tokens = 0, completion_tokens = 0, total_tokens = 0 } = usage ?? {}
  const details = usage?.['prompt_tokens_details'] as { cached_tokens?: number } | null | undefined
  const cacheRead = details?.cached_tokens ?? 0
  return {
    input: prompt_tokens - cacheRead,
    output: completion_tokens,
    cacheRead,
    cacheWrite: 0,
    totalTokens: total_tokens,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
  }
}
