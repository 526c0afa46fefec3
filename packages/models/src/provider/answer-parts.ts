import type { LanguageModelV4StreamPart, LanguageModelV4Usage } from '@ai-sdk/provider'
import type { ChatCompletion, ChatDelta, ChatToolCall, ChatUsage } from '@osmosis/core/policy'

import { type AssistantPart, toolInput } from './answer-memory.ts'

type ProviderMetadata = Extract<LanguageModelV4StreamPart, { type: 'text-end' }>['providerMetadata']

/** How an answer ended. */
export interface AnswerEnd {
  readonly finishReason: string
  /** Undefined when the provider counted nothing. */
  readonly usage: ChatUsage | undefined
}

interface Block {
  readonly type: 'text' | 'reasoning'
  text: string
  metadata: ProviderMetadata
}

interface Call {
  readonly type: 'tool-call'
  readonly id: string
  readonly index: number
  readonly name: string
  /** What has been passed on of it. */
  streamed: string
  metadata: ProviderMetadata
}

/** Takes the stream of one answer: what of each part goes over the wire, and all of it in the end. */
export class AnswerParts {
  readonly #parts: (Block | Call)[] = []
  readonly #open = new Map<string, Block | Call>()
  #end: AnswerEnd | undefined

  /** Undefined until the provider said how the answer ended. */
  get end(): AnswerEnd | undefined {
    return this.#end
  }

  /**
   * What a part adds to the message; undefined for parts that chat completions know nothing of.
   *
   * @throws whatever a provider reports as the error of its stream
   */
  add(part: LanguageModelV4StreamPart): ChatDelta | undefined {
    // oxlint-disable-next-line typescript/switch-exhaustiveness-check -- the SDK adds parts at any time
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        this.#openBlock(part.id, part.type === 'text-start' ? 'text' : 'reasoning', part)
        return undefined
      case 'text-delta':
      case 'reasoning-delta': {
        const type = part.type === 'text-delta' ? 'text' : 'reasoning'
        const block = this.#open.get(`${type}/${part.id}`) ?? this.#openBlock(part.id, type, part)
        if (block.type !== 'tool-call') block.text += part.delta
        this.#note(`${type}/${part.id}`, part)
        if (part.delta === '') return undefined
        return type === 'text' ? { content: part.delta } : { reasoning_content: part.delta }
      }
      case 'text-end':
      case 'reasoning-end':
        this.#note(`${part.type === 'text-end' ? 'text' : 'reasoning'}/${part.id}`, part)
        return undefined
      case 'tool-input-start':
        return part.providerExecuted ? undefined : this.#openCall(part.id, part.toolName)
      case 'tool-input-delta':
        return this.#grow(part.id, part.delta)
      case 'tool-call':
        return part.providerExecuted ? undefined : this.#finishCall(part)
      case 'finish':
        this.#end = {
          finishReason: finishReasonOf(part.finishReason),
          usage: usageOf(part.usage),
        }
        return undefined
      case 'error':
        throw part.error
      default:
        return undefined
    }
  }

  /** The whole message. */
  message(): ChatCompletion['choices'][number]['message'] {
    const text = this.#text('text')
    const reasoning = this.#text('reasoning')
    const calls = this.#calls().map(({ id, name, streamed }): ChatToolCall => ({
      id,
      type: 'function',
      function: { name, arguments: streamed },
    }))
    return {
      role: 'assistant',
      content: text === '' && calls.length > 0 ? null : text,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    }
  }

  /** The whole message in the provider's own terms. */
  remembered(): AssistantPart[] {
    return this.#parts.map((part): AssistantPart => {
      const options = part.metadata === undefined ? {} : { providerOptions: part.metadata }
      if (part.type !== 'tool-call') return { type: part.type, text: part.text, ...options }
      const input = toolInput(part.streamed)
      return { type: 'tool-call', toolCallId: part.id, toolName: part.name, input, ...options }
    })
  }

  #openBlock(
    id: string,
    type: Block['type'],
    { providerMetadata: metadata }: { providerMetadata?: ProviderMetadata },
  ): Block {
    const block: Block = { type, text: '', metadata }
    this.#open.set(`${type}/${id}`, block)
    this.#parts.push(block)
    return block
  }

  /** Signatures come with any part of a block, and the last one counts. */
  #note(key: string, { providerMetadata }: { providerMetadata?: ProviderMetadata }): void {
    const block = this.#open.get(key)
    if (block !== undefined && providerMetadata !== undefined) {
      block.metadata = { ...block.metadata, ...providerMetadata }
    }
  }

  #openCall(id: string, name: string): ChatDelta {
    const index = this.#calls().length
    const call: Call = { type: 'tool-call', id, index, name, streamed: '', metadata: undefined }
    this.#open.set(`call/${id}`, call)
    this.#parts.push(call)
    return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }
  }

  #grow(id: string, text: string): ChatDelta | undefined {
    const call = this.#open.get(`call/${id}`)
    if (call?.type !== 'tool-call' || text === '') return undefined
    call.streamed += text
    return { tool_calls: [{ index: call.index, function: { arguments: text } }] }
  }

  /** Providers stream the input of a call, or give it whole at its end, or both. */
  #finishCall(
    part: Extract<LanguageModelV4StreamPart, { type: 'tool-call' }>,
  ): ChatDelta | undefined {
    const key = `call/${part.toolCallId}`
    const opened = this.#open.has(key) ? undefined : this.#openCall(part.toolCallId, part.toolName)
    this.#note(key, part)
    const call = this.#open.get(key)
    const rest = call?.type === 'tool-call' && call.streamed === '' ? part.input : ''
    const grown = this.#grow(part.toolCallId, rest)
    if (opened === undefined) return grown
    const [first] = opened.tool_calls ?? []
    return { tool_calls: [{ ...first, function: { name: part.toolName, arguments: rest } }] }
  }

  #calls(): Call[] {
    return this.#parts.filter((part) => part.type === 'tool-call')
  }

  #text(type: Block['type']): string {
    return this.#parts.map((part) => (part.type === type ? part.text : '')).join('')
  }
}

function finishReasonOf({ unified, raw }: { unified: string; raw: string | undefined }): string {
  switch (unified) {
    case 'stop':
    case 'length':
      return unified
    case 'content-filter':
      return 'content_filter'
    case 'tool-calls':
      return 'tool_calls'
    case 'error':
    case 'interrupted':
      throw new Error(`the answer ended with ${raw ?? unified}`)
    default:
      return raw ?? 'stop'
  }
}

function usageOf({ inputTokens, outputTokens }: LanguageModelV4Usage): ChatUsage | undefined {
  const { total: prompt, cacheRead } = inputTokens
  const { total: completion, reasoning } = outputTokens
  if (prompt === undefined || completion === undefined) return undefined
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    ...(cacheRead === undefined ? {} : { prompt_tokens_details: { cached_tokens: cacheRead } }),
    ...(reasoning === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: reasoning } }),
  }
}
