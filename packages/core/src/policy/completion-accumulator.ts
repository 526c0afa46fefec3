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

interface StreamedToolCall {
  readonly index: number | undefined
  readonly call: ChatToolCall
  /** The first id that the server gave it; not the call's own where it came late. */
  serverId: string | undefined
}

/**
 * Puts the tool calls of one streamed answer together. They need an id, because their results point
 * to it; one that comes without gets it here, in the delta itself: the chunk is handed out after
 * that, so all who read it know the call by the same id.
 */
class StreamedToolCalls {
  readonly #entries: StreamedToolCall[] = []

  /** New objects each time. */
  get toolCalls(): ChatToolCall[] {
    return this.#entries.map(({ call }) => ({ ...call, function: { ...call.function } }))
  }

  /** Whether one of them came without an id so far. */
  get hasOwnIds(): boolean {
    return this.#entries.some(({ serverId }) => serverId === undefined)
  }

  /** Takes the list of one chunk. */
  add(deltas: readonly ChatToolCallDelta[]): void {
    const named = new Set<StreamedToolCall>()
    for (const delta of deltas) this.#addDelta(delta, named)
  }

  /** `named` are the calls that the same list has named already: it names each only once. */
  #addDelta(delta: ChatToolCallDelta, named: Set<StreamedToolCall>): void {
    assertShape(delta)
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
      ? this.#entries.filter(({ index }) => index === delta.index)
      : this.#entries
    return calls.findLast(({ serverId }) => serverId && serverId === delta.id) ?? calls.at(-1)
  }

  #beginCall({ index, id }: ChatToolCallDelta): StreamedToolCall {
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

/** Arguments as an object are those of servers that parse what the policy wrote. */
function assertShape({ index, id, function: called }: ChatToolCallDelta): void {
  const isPlace = index === undefined || index === null || (Number.isInteger(index) && index >= 0)
  if (!isPlace) throw new TypeError('expected the index of a tool call')
  asText(id)
  if (called === undefined || called === null) return
  asText(asObject(called).name)
  const text: unknown = called.arguments
  if (typeof text !== 'object') asText(text)
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
  readonly #toolCalls = new StreamedToolCalls()
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

  /** Whether tool calls have ids that the policy did not give them. */
  get hasOwnIds(): boolean {
    return this.#toolCalls.hasOwnIds
  }

  /** Takes the next chunk. Tool calls in it get the ids they lack, see `StreamedToolCalls`. */
  add(chunk: ChatCompletionChunk): void {
    this.#id ??= chunk.id
    this.#created ??= chunk.created
    this.#model ??= chunk.model
    if (chunk.usage) this.#usage = chunk.usage
    if (chunk.prompt_token_ids) this.#promptTokenIds = chunk.prompt_token_ids

    const choice = chunk.choices?.find(isFirst)
    if (choice === undefined) return
    asObject(choice)
    this.#sawChoice = true
    if (choice.delta) this.#addDelta(asObject(choice.delta))
    if (choice.finish_reason) this.#finishReason = asText(choice.finish_reason) ?? undefined
    if (choice.logprobs?.content) append(this.#logprobs, choice.logprobs.content)
    if (choice.token_ids) append(this.#tokenIds, choice.token_ids)
  }

  /**
   * The answer as one object, as an endpoint gives it that does not stream. A new one each time:
   * what one reader does to it is not seen by another.
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
    return completion
  }

  #message(): AssistantMessage {
    const { toolCalls } = this.#toolCalls
    const message: AssistantMessage = {
      role: 'assistant',
      // Streams open with an empty text even when only tool calls follow; that is not an answer's text.
      content: this.#content || toolCalls.length === 0 ? (this.#content ?? '') : null,
    }
    if (this.#reasoningContent !== undefined) message.reasoning_content = this.#reasoningContent
    if (this.#reasoning !== undefined) message.reasoning = this.#reasoning
    if (this.#refusal !== undefined) message.refusal = this.#refusal
    if (toolCalls.length > 0) message.tool_calls = toolCalls
    return message
  }

  #addDelta(delta: ChatDelta): void {
    // Empty deltas, the finish reason once more and usage do come behind the finish reason.
    if (this.#finishReason !== undefined && saysSomething(delta)) {
      throw new OsmosisError(
        'policy_stream_error',
        `The policy said more behind its finish_reason, which would be a second answer: ${JSON.stringify(delta).slice(0, 200)}`,
      )
    }
    this.#content = joined(this.#content, delta.content)
    this.#refusal = joined(this.#refusal, delta.refusal)
    this.#reasoning = joined(this.#reasoning, delta.reasoning)
    this.#reasoningContent = joined(this.#reasoningContent, delta.reasoning_content)
    if (delta.tool_calls) this.#toolCalls.add(delta.tool_calls)
  }
}

/**
 * A whole answer as the single chunk of a stream, for endpoints that do not stream.
 *
 * @throws TypeError when it is not made as it should be
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

function saysSomething(delta: ChatDelta): boolean {
  const { content, refusal, reasoning, reasoning_content, tool_calls } = delta
  return Boolean(content || refusal || reasoning || reasoning_content || tool_calls?.length)
}

/** Text in another form, such as a list of parts, must not turn into an empty answer. */
function joined(text: string | undefined, more: unknown): string | undefined {
  const next = asText(more)
  return next === undefined || next === null ? text : (text ?? '') + next
}

// Answers hold tens of thousands of tokens; spreading that many arguments overflows the stack.
function append<T>(list: T[], items: readonly T[]): void {
  for (const item of items) list.push(item)
}

/**
 * A text of an answer, which may be missing.
 *
 * @throws TypeError when it is something else
 */
function asText(value: unknown): string | null | undefined {
  if (typeof value === 'string' || value === null || value === undefined) return value
  throw new TypeError('expected a text')
}

/**
 * An object of an answer.
 *
 * @throws TypeError when it is something else
 */
function asObject<T extends object>(value: T): T {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new TypeError('expected an object')
}
