import { randomUUID } from 'node:crypto'

import { OsmosisError } from '../errors.ts'
import type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChunk,
  ChatDelta,
  ChatUsage,
  ChatToolCall,
  ChatToolCallDelta,
} from './chat-completion.ts'

/** Arguments that a chunk adds to a tool call; '' where it only starts or names one. */
export interface ToolCallPiece {
  /** The same object each time. */
  readonly call: ChatToolCall
  readonly text: string
}

const noPieces: readonly ToolCallPiece[] = []

interface StreamedToolCall {
  readonly index: number | undefined
  readonly call: ChatToolCall
  /** The first id that the server gave it. The call has another one if this came late. */
  serverId: string | undefined
}

/**
 * Assembles the tool calls of one streamed answer. Tool results refer to the id of a call, so a call without
 * an id gets one here. It is written into the delta itself before the chunk is passed on, so that all readers
 * see the same id.
 */
class StreamedToolCalls {
  readonly #entries: StreamedToolCall[] = []

  /** Copies. */
  get toolCalls(): ChatToolCall[] {
    return this.#entries.map(({ call }) => ({ ...call, function: { ...call.function } }))
  }

  /** Whether the server gave one of them no id so far. */
  get hasOwnIds(): boolean {
    return this.#entries.some(({ serverId }) => serverId === undefined)
  }

  /** Adds the list of one chunk. */
  add(deltas: readonly ChatToolCallDelta[]): ToolCallPiece[] {
    const named = new Set<StreamedToolCall>()
    return deltas.map((delta) => this.#addDelta(delta, named))
  }

  /** `named`: the calls that this list has named. A list names each call once. */
  #addDelta(delta: ChatToolCallDelta, named: Set<StreamedToolCall>): ToolCallPiece {
    assertShape(delta)
    const name = delta.function?.name
    const known = this.#latestCall(delta)
    const isNew = !known || (name && named.has(known)) || isAnotherCall(known, delta)
    const entry = isNew ? this.#startCall(delta) : known
    if (name) named.add(entry)

    const { call } = entry
    entry.serverId ??= delta.id || undefined
    // Readers have seen the first id, so later ones are replaced by it.
    if ((isNew || delta.id) && delta.id !== call.id) delta.id = call.id
    // Some servers repeat id and name in every delta, so they are not appended.
    call.function.name ||= name ?? ''
    const text = argumentsText(delta.function?.arguments)
    call.function.arguments += text
    return { call, text }
  }

  /** The call that `delta` continues, unless it starts a new one. */
  #latestCall(delta: ChatToolCallDelta): StreamedToolCall | undefined {
    const calls = isNumbered(delta)
      ? this.#entries.filter(({ index }) => index === delta.index)
      : this.#entries
    return calls.findLast(({ serverId }) => serverId && serverId === delta.id) ?? calls.at(-1)
  }

  #startCall({ index, id }: ChatToolCallDelta): StreamedToolCall {
    const call: ChatToolCall = {
      id: id || `call_${randomUUID().replaceAll('-', '')}`,
      type: 'function',
      function: { name: '', arguments: '' },
    }
    const entry = { index, call, serverId: undefined }
    this.#entries.push(entry)
    return entry
  }
}

/** Some servers parse the arguments that the policy wrote and send an object. */
function argumentsText(written: unknown): string {
  if (typeof written === 'string') return written
  return written === undefined || written === null ? '' : JSON.stringify(written)
}

function assertShape({ index, id, function: called }: ChatToolCallDelta): void {
  const isIndex = index === undefined || index === null || (Number.isInteger(index) && index >= 0)
  if (!isIndex) throw new TypeError('expected the index of a tool call')
  asText(id)
  if (called === undefined || called === null) return
  asText(asObject(called).name)
  const text: unknown = called.arguments
  if (typeof text !== 'object') asText(text)
}

/**
 * Whether `delta` starts a new call after the `known` one of the same index: some servers give every call the
 * index 0 or none, others change the id within a call. Only a delta with a name starts one.
 */
function isAnotherCall({ call, serverId }: StreamedToolCall, delta: ChatToolCallDelta): boolean {
  const known = call.function
  const name = delta.function?.name
  if (!name || !known.name) return false
  if (delta.id && serverId) return delta.id !== serverId
  if (name !== known.name) return true
  // The same name again: repeated, perhaps with a late id, or a second call of the same tool.
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

/**
 * Assembles the chunks of one streamed answer. Servers differ: a chunk may have one token or the whole
 * answer, tool calls may have no `index`, roles and usage may be missing.
 */
export class CompletionAccumulator {
  #id: string | undefined
  #created: number | undefined
  #model: string | undefined
  #content: string | undefined
  #refusal: string | undefined
  #reasoning: string | undefined
  #reasoningContent: string | undefined
  readonly #toolCalls = new StreamedToolCalls()
  readonly #logprobs: unknown[] = []
  readonly #tokenIds: number[] = []
  #promptTokenIds: number[] | undefined
  #weightVersion: string | undefined
  #usage: ChatUsage | undefined
  #finishReason: string | undefined
  #sawChoice = false

  /** Undefined until the policy has sent it. */
  get finishReason(): string | undefined {
    return this.#finishReason
  }

  /** Whether any chunk had a choice. */
  get sawChoice(): boolean {
    return this.#sawChoice
  }

  /** Whether tool calls have ids that were generated here. */
  get hasOwnIds(): boolean {
    return this.#toolCalls.hasOwnIds
  }

  /**
   * Adds a chunk. Sets missing ids of its tool calls, see `StreamedToolCalls`. Returns what it adds to tool calls.
   */
  add(chunk: ChatCompletionChunk): readonly ToolCallPiece[] {
    this.#id ??= chunk.id
    this.#created ??= chunk.created
    this.#model ??= chunk.model
    if (chunk.usage) this.#usage = chunk.usage
    if (chunk.prompt_token_ids) this.#promptTokenIds = chunk.prompt_token_ids
    if (typeof chunk.metadata?.weight_version === 'string') {
      this.#weightVersion = chunk.metadata.weight_version
    }

    const choice = chunk.choices?.find(isFirst)
    if (choice === undefined) return noPieces
    asObject(choice)
    this.#sawChoice = true
    const pieces = choice.delta ? this.#addDelta(asObject(choice.delta)) : noPieces
    if (choice.finish_reason) this.#finishReason = asText(choice.finish_reason) ?? undefined
    if (choice.logprobs?.content) append(this.#logprobs, choice.logprobs.content)
    if (choice.token_ids) append(this.#tokenIds, choice.token_ids)
    return pieces
  }

  /**
   * The answer as one object, as an endpoint without streaming sends it. A new object each time, so that
   * readers may modify it.
   */
  completion(): ChatCompletion {
    const choice: ChatCompletion['choices'][number] = {
      index: 0,
      message: this.#message(),
      finish_reason: this.#finishReason ?? null,
      logprobs: this.#logprobs.length > 0 ? { content: [...this.#logprobs] } : null,
    }
    if (this.#tokenIds.length > 0) choice.token_ids = [...this.#tokenIds]
    const completion: ChatCompletion = {
      id: this.#id ?? '',
      object: 'chat.completion',
      created: this.#created ?? 0,
      model: this.#model ?? '',
      choices: [choice],
    }
    if (this.#usage) completion.usage = { ...this.#usage }
    if (this.#promptTokenIds) completion.prompt_token_ids = [...this.#promptTokenIds]
    if (this.#weightVersion !== undefined) {
      completion.metadata = { weight_version: this.#weightVersion }
    }
    return completion
  }

  #message(): AssistantMessage {
    const { toolCalls } = this.#toolCalls
    const message: AssistantMessage = {
      role: 'assistant',
      // Streams start with an empty text even when only tool calls follow.
      content: this.#content || toolCalls.length === 0 ? (this.#content ?? '') : null,
    }
    if (this.#reasoningContent !== undefined) message.reasoning_content = this.#reasoningContent
    if (this.#reasoning !== undefined) message.reasoning = this.#reasoning
    if (this.#refusal !== undefined) message.refusal = this.#refusal
    if (toolCalls.length > 0) message.tool_calls = toolCalls
    return message
  }

  #addDelta(delta: ChatDelta): readonly ToolCallPiece[] {
    // Empty deltas, a repeated finish reason and usage may follow the finish reason.
    if (this.#finishReason !== undefined && hasContent(delta)) {
      throw new OsmosisError(
        'policy_stream_error',
        `The policy sent more after its finish_reason, which would be a second answer: ${JSON.stringify(delta).slice(0, 200)}`,
      )
    }
    this.#content = joined(this.#content, delta.content)
    this.#refusal = joined(this.#refusal, delta.refusal)
    this.#reasoning = joined(this.#reasoning, delta.reasoning)
    this.#reasoningContent = joined(this.#reasoningContent, delta.reasoning_content)
    return delta.tool_calls ? this.#toolCalls.add(delta.tool_calls) : noPieces
  }
}

/**
 * A whole answer as the single chunk of a stream, for endpoints that do not stream.
 *
 * @throws TypeError when it is malformed
 */
export function chunkFromCompletion(completion: ChatCompletion): ChatCompletionChunk {
  return {
    ...completion,
    object: 'chat.completion.chunk',
    choices: (completion.choices ?? []).map(({ message, ...choice }) => ({
      ...choice,
      delta: {
        ...asObject(message),
        ...(message.tool_calls
          ? {
              tool_calls: message.tool_calls.map((call, index) => ({ index, ...asObject(call) })),
            }
          : {}),
      },
    })),
  }
}

function isFirst({ index }: ChatCompletionChunk['choices'][number]): boolean {
  return (index ?? 0) === 0
}

function hasContent(delta: ChatDelta): boolean {
  const { content, refusal, reasoning, reasoning_content, tool_calls } = delta
  return Boolean(content || refusal || reasoning || reasoning_content || tool_calls?.length)
}

/** Other forms of text, such as a list of parts, are an error: they must not become an empty answer. */
function joined(text: string | undefined, more: unknown): string | undefined {
  const next = asText(more)
  return next === undefined || next === null ? text : (text ?? '') + next
}

// Answers have tens of thousands of tokens; that many arguments of `push` overflow the stack.
function append<T>(list: T[], items: readonly T[]): void {
  for (const item of items) list.push(item)
}

/** Returns a text of an answer, which may be missing. Throws a TypeError for anything else. */
function asText(value: unknown): string | null | undefined {
  if (typeof value === 'string' || value === null || value === undefined) return value
  throw new TypeError('expected a text')
}

/** Returns an object of an answer. Throws a TypeError for anything else. */
function asObject<T extends object>(value: T): T {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new TypeError('expected an object')
}
