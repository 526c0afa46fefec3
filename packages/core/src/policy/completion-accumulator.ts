import { randomUUID } from 'node:crypto'

import type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChunk,
  ChatDelta,
  ChatToolCall,
  ChatToolCallDelta,
  ChatUsage,
} from '../wire/chat-completion.ts'

interface StreamedToolCall {
  readonly index: number | undefined
  readonly call: ChatToolCall
  /** The first id that the server gave it; not the call's own where it came late. */
  serverId: string | undefined
}

/**
 * Puts the chunks of one streamed answer together. Servers differ: a chunk may hold one token or
 * the whole answer, tool calls may lack their `index`, roles and usage may never come.
 */
export class CompletionAccumulator {
  #id: string | undefined
  #created: number | undefined
  #model: string | undefined
  #content: string | undefined
  #refusal: string | undefined
  #reasoning: string | undefined
  #reasoningContent: string | undefined
  readonly #toolCalls: StreamedToolCall[] = []
  readonly #logprobs: unknown[] = []
  readonly #tokenIds: number[] = []
  #promptTokenIds: number[] | undefined
  #usage: ChatUsage | undefined
  #finishReason: string | undefined
  #sawChoice = false

  /** Why the policy stopped; undefined until it said so. */
  get finishReason(): string | undefined {
    return this.#finishReason
  }

  /** Whether any chunk carried a choice: an answer without one is no answer. */
  get sawChoice(): boolean {
    return this.#sawChoice
  }

  /**
   * Takes the next chunk. Tool calls need an id, because their results point to it; one that comes
   * without gets it here, in `chunk` itself, so that all who read the chunk know the call by the
   * same id.
   */
  add(chunk: ChatCompletionChunk): void {
    this.#id ??= chunk.id
    this.#created ??= chunk.created
    this.#model ??= chunk.model
    if (chunk.usage) this.#usage = chunk.usage
    if (chunk.prompt_token_ids) this.#promptTokenIds = chunk.prompt_token_ids

    const choice = chunk.choices?.find(({ index }) => (index ?? 0) === 0)
    if (choice === undefined) return
    this.#sawChoice = true
    if (choice.delta) this.#addDelta(choice.delta)
    if (choice.finish_reason) this.#finishReason = choice.finish_reason
    if (choice.logprobs?.content) append(this.#logprobs, choice.logprobs.content)
    if (choice.token_ids) append(this.#tokenIds, choice.token_ids)
  }

  /** The answer as one object, as an endpoint gives it that does not stream. */
  completion(): ChatCompletion {
    return {
      id: this.#id ?? '',
      object: 'chat.completion',
      created: this.#created ?? 0,
      model: this.#model ?? '',
      choices: [
        {
          index: 0,
          message: this.#message(),
          finish_reason: this.#finishReason ?? null,
          logprobs: this.#logprobs.length > 0 ? { content: this.#logprobs } : null,
          ...(this.#tokenIds.length > 0 ? { token_ids: this.#tokenIds } : {}),
        },
      ],
      ...(this.#usage ? { usage: this.#usage } : {}),
      ...(this.#promptTokenIds ? { prompt_token_ids: this.#promptTokenIds } : {}),
    }
  }

  #message(): AssistantMessage {
    const toolCalls = this.#toolCalls.map(({ call }) => call)
    return {
      role: 'assistant',
      // Streams open with an empty text even when only tool calls follow; that is no text.
      content: this.#content || toolCalls.length === 0 ? (this.#content ?? '') : null,
      ...(this.#reasoningContent === undefined
        ? {}
        : { reasoning_content: this.#reasoningContent }),
      ...(this.#reasoning === undefined ? {} : { reasoning: this.#reasoning }),
      ...(this.#refusal === undefined ? {} : { refusal: this.#refusal }),
      ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
    }
  }

  #addDelta(delta: ChatDelta): void {
    this.#content = joined(this.#content, delta.content)
    this.#refusal = joined(this.#refusal, delta.refusal)
    this.#reasoning = joined(this.#reasoning, delta.reasoning)
    this.#reasoningContent = joined(this.#reasoningContent, delta.reasoning_content)
    const named = new Set<StreamedToolCall>()
    for (const call of delta.tool_calls ?? []) this.#addToolCall(call, named)
  }

  /** `named` are the calls that the same list has named already: it names each only once. */
  #addToolCall(delta: ChatToolCallDelta, named: Set<StreamedToolCall>): void {
    const name = delta.function?.name
    const known = this.#latestCall(delta)
    const begins = !known || (name && named.has(known)) || isAnotherCall(known, delta)
    const entry = begins ? this.#beginCall(delta) : known
    if (name) named.add(entry)

    const { call } = entry
    entry.serverId ??= delta.id || undefined
    // The id that readers saw first stays: one that comes late or changes would be a second one.
    if ((begins || delta.id) && delta.id !== call.id) delta.id = call.id
    // Some servers repeat id and name in every delta, so they are taken once and not appended.
    call.function.name ||= name ?? ''
    const text: unknown = delta.function?.arguments
    if (typeof text === 'string') call.function.arguments += text
    else if (text !== undefined && text !== null) call.function.arguments += JSON.stringify(text)
  }

  /** The call that `delta` continues, unless it begins another. */
  #latestCall(delta: ChatToolCallDelta): StreamedToolCall | undefined {
    const calls = isNumbered(delta)
      ? this.#toolCalls.filter(({ index }) => index === delta.index)
      : this.#toolCalls
    return calls.findLast(({ serverId }) => serverId && serverId === delta.id) ?? calls.at(-1)
  }

  #beginCall({ index, id }: ChatToolCallDelta): StreamedToolCall {
    const call: ChatToolCall = {
      id: id || `call_${randomUUID().replaceAll('-', '')}`,
      type: 'function',
      function: { name: '', arguments: '' },
    }
    const entry = { index, call, serverId: undefined }
    this.#toolCalls.push(entry)
    return entry
  }
}

/**
 * Whether `delta` begins a call behind the `known` one of the same index: some servers number every
 * call 0 or none at all, others change the id within a call. Only a delta with a name begins one.
 */
function isAnotherCall({ call, serverId }: StreamedToolCall, delta: ChatToolCallDelta): boolean {
  const known = call.function
  const name = delta.function?.name
  if (!name || !known.name) return false
  if (delta.id && serverId) return delta.id !== serverId
  if (name !== known.name) return true
  // The name again: repeated, perhaps with an id that comes late, or a second call of the tool.
  return (Boolean(delta.id) || !isNumbered(delta)) && isJson(known.arguments)
}

function isNumbered({ index }: ChatToolCallDelta): boolean {
  return typeof index === 'number'
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** A whole answer as the single chunk of a stream, for endpoints that do not stream. */
export function chunkFromCompletion(completion: ChatCompletion): ChatCompletionChunk {
  return {
    ...completion,
    object: 'chat.completion.chunk',
    choices: (completion.choices ?? []).map(({ message, ...choice }) => ({
      ...choice,
      delta: {
        ...message,
        ...(message.tool_calls
          ? { tool_calls: message.tool_calls.map((call, index) => ({ index, ...call })) }
          : {}),
      },
    })),
  }
}

function joined(text: string | undefined, more: string | null | undefined): string | undefined {
  return typeof more === 'string' ? (text ?? '') + more : text
}

// Answers hold tens of thousands of tokens; spreading that many arguments overflows the stack.
function append<T>(list: T[], items: readonly T[]): void {
  for (const item of items) list.push(item)
}
