import { isJsonObject } from '../../http/json.ts'
import { OsmosisError } from '../../errors.ts'
import { assertEndedWell } from './answer-failures.ts'
import { CallAliases } from '../call-aliases.ts'
import type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatDelta,
  ChatToolCall,
  ChatToolCallDelta,
  ChatUsage,
} from '../chat-completion.ts'
import { StreamedToolCalls } from './streamed-tool-calls.ts'
import { addFields } from './unknown-fields.ts'

type Choice = ChatCompletionChunk['choices'][number]

/** Texts of an answer, under their names in a delta. */
const texts = ['content', 'refusal', 'reasoning', 'reasoning_content'] as const
const knownFields = new Set<string>([...texts, 'role', 'tool_calls'])

/** Finish reasons of an answer that reached the limit of its length, as servers name it. */
const lengthReasons = /length|max_\w*tokens/i

/**
 * Assembles the chunks of one answer. Servers differ: a chunk may have one token or the whole answer, tool calls may
 * have no `index` or ids that were used before, roles, finish reason and usage may be missing. The record has what
 * the policy wrote; agents get one form of it, in chunks and as a whole.
 */
export class CompletionAccumulator {
  #id: string | undefined
  /** As the agent gets it. */
  #shownId: string | undefined
  /** Whether the server has sent a part of the answer as a delta. */
  #hasDeltas = false
  /** Whether the agent has received the role of the message. */
  #hasRole = false
  #created: number | undefined
  #model: string | undefined
  readonly #texts: Partial<Record<(typeof texts)[number], string>> = {}
  /** Other fields of the message, which go back to the policy with it. */
  readonly #more: Record<string, unknown> = {}
  readonly #aliases: CallAliases
  readonly #toolCalls: StreamedToolCalls
  readonly #logprobs: unknown[] = []
  readonly #tokenIds: number[] = []
  #promptTokenIds: number[] | undefined
  #weightVersion: string | undefined
  #usage: ChatUsage | undefined
  /** As the server says it. */
  #finishReason: string | undefined
  /** One that came before anything was said: some servers send it first. It counts at the end. */
  #earlyReason: string | undefined
  /** Whether the agent has received how the answer ended. */
  #hasEnded = false
  #sawChoice = false
  /** The first choice without anything that the SDK reads, if no choice has anything. */
  #unreadable: Choice | undefined
  #isReadable = false

  /**
   * @param request - that is answered: the tools that it offers
   * @param aliases - of the sample
   */
  constructor(
    request: Partial<ChatCompletionRequest> = {},
    aliases: CallAliases = new CallAliases(),
  ) {
    this.#aliases = aliases
    let offered: ReadonlySet<string> | undefined
    this.#toolCalls = new StreamedToolCalls(
      aliases,
      () => (offered ??= toolNames(request['tools'])),
    )
  }

  /** Undefined until the policy has sent it. */
  get finishReason(): string | undefined {
    return this.#finishReason
  }

  /** Whether tool calls have ids that were generated here. */
  get hasOwnIds(): boolean {
    return this.#toolCalls.hasOwnIds
  }

  /** Adds a chunk. Returns it as the agent gets it. */
  add(chunk: ChatCompletionChunk): ChatCompletionChunk {
    if (this.#id === undefined && typeof chunk.id === 'string') {
      this.#id = chunk.id
      this.#shownId = this.#aliases.answerIdFor(chunk.id)
    }
    const shown = this.#add(chunk)
    return this.#shownId === this.#id ? shown : { ...shown, id: this.#shownId ?? '' }
  }

  #add(chunk: ChatCompletionChunk): ChatCompletionChunk {
    this.#created ??= chunk.created
    this.#model ??= chunk.model
    if (chunk.usage) this.#usage = chunk.usage
    this.#notePromptIds(chunk.prompt_token_ids)
    if (typeof chunk.metadata?.weight_version === 'string') {
      this.#weightVersion = chunk.metadata.weight_version
    }

    const choice = chunk.choices?.find(isFirst)
    // Usage alone. Clients expect a list.
    if (choice === undefined) return chunk.choices ? chunk : { ...chunk, choices: [] }
    asObject(choice)
    this.#sawChoice = true
    const { delta, shown } = this.#addDelta(choice)
    const reason = asText(choice.finish_reason) || undefined
    if (reason !== undefined) assertEndedWell(reason)
    const isEnd = reason !== undefined && this.#hasSaid
    const isFirstEnd = isEnd && this.#finishReason === undefined
    if (isFirstEnd) this.#finishReason = reason
    else this.#earlyReason ??= reason
    if (choice.logprobs?.content) append(this.#logprobs, choice.logprobs.content)
    if (choice.token_ids) append(this.#tokenIds, idsOf(choice.token_ids))
    if (isFirstEnd) shown.push(...this.#endCalls())

    const shownReason = isEnd ? this.#shownReason : null
    const isUnchanged =
      delta !== undefined &&
      delta === choice.delta &&
      shown.length === 0 &&
      (shownReason ?? choice.finish_reason) === choice.finish_reason
    if (isUnchanged) return chunk
    const { message: _message, ...others } = choice
    const shownDelta = shown.length > 0 ? { ...delta, tool_calls: shown } : (delta ?? {})
    return { ...chunk, choices: [{ ...others, delta: shownDelta, finish_reason: shownReason }] }
  }

  /**
   * What the agent gets behind the last chunk: calls and a finish reason that have not come before.
   *
   * @throws OsmosisError with code `policy_stream_error` when the chunks have no answer
   */
  end(): ChatCompletionChunk | undefined {
    if (!this.#sawChoice) {
      throw new OsmosisError(
        'policy_stream_error',
        'The policy sent no choices: its answer is empty.',
      )
    }
    if (!this.#isReadable && this.#unreadable !== undefined) {
      throw new OsmosisError(
        'policy_stream_error',
        `The policy sent an answer that cannot be read: ${JSON.stringify({ choices: [this.#unreadable] }).slice(0, 200)} has none of ${[...texts, 'tool_calls'].join(', ')} in delta or message.`,
      )
    }
    if (this.#hasEnded) return undefined
    const calls = this.#endCalls()
    return {
      id: this.#shownId ?? '',
      object: 'chat.completion.chunk',
      created: this.#created ?? 0,
      model: this.#model ?? '',
      choices: [
        {
          index: 0,
          delta: calls.length > 0 ? { tool_calls: calls } : {},
          finish_reason: this.#shownReason,
        },
      ],
    }
  }

  /** The answer as the policy gave it, for the record. A new object each time. */
  recorded(): ChatCompletion {
    const reason = this.#finishReason ?? this.#earlyReason ?? null
    return this.#completion(this.#id, this.#toolCalls.recorded, reason)
  }

  /**
   * The answer as the agent gets it, as an endpoint without streaming sends it. A new object each time, so that
   * readers may modify it. Complete behind `end`.
   */
  completion(): ChatCompletion {
    return this.#completion(this.#shownId, this.#toolCalls.shown, this.#shownReason)
  }

  #completion(
    id: string | undefined,
    calls: ChatToolCall[],
    finishReason: string | null,
  ): ChatCompletion {
    const choice: ChatCompletion['choices'][number] = {
      index: 0,
      message: this.#message(calls),
      finish_reason: finishReason,
      logprobs: this.#logprobs.length > 0 ? { content: [...this.#logprobs] } : null,
    }
    if (this.#tokenIds.length > 0) choice.token_ids = [...this.#tokenIds]
    const completion: ChatCompletion = {
      id: id ?? '',
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

  #message(calls: ChatToolCall[]): AssistantMessage {
    const { content, refusal, reasoning, reasoning_content } = this.#texts
    const message: AssistantMessage = {
      role: 'assistant',
      // Streams start with an empty text even when only tool calls follow.
      content: content || calls.length === 0 ? (content ?? '') : null,
    }
    if (reasoning_content !== undefined) message.reasoning_content = reasoning_content
    if (reasoning !== undefined) message.reasoning = reasoning
    if (refusal !== undefined) message.refusal = refusal
    Object.assign(message, this.#more)
    if (calls.length > 0) message.tool_calls = calls
    return message
  }

  /**
   * How the answer ended, for the agent, in the words of chat completions: frameworks run calls only behind
   * `tool_calls`, and some ask again behind a word that they do not know. Behind `length` frameworks differ: some run
   * calls whose arguments are whole, some end there. As most do, calls of which the limit cut nothing run in all of them.
   */
  get #shownReason(): string {
    const reason = this.#finishReason ?? this.#earlyReason ?? 'stop'
    if (lengthReasons.test(reason)) return this.#toolCalls.areWhole ? 'tool_calls' : 'length'
    if (reason === 'content_filter') return reason
    return this.#toolCalls.size > 0 ? 'tool_calls' : 'stop'
  }

  get #hasSaid(): boolean {
    return this.#toolCalls.size > 0 || texts.some((key) => this.#texts[key])
  }

  #endCalls(): ChatToolCallDelta[] {
    this.#hasEnded = true
    const reason = this.#shownReason
    return this.#toolCalls.end(reason === 'length' || reason === 'content_filter')
  }

  /** Servers repeat them, or send an empty list in later chunks. */
  #notePromptIds(sent: unknown): void {
    if (sent === undefined || sent === null) return
    const ids = idsOf(sent)
    if (ids.length > 0) this.#promptTokenIds = [...ids]
    else this.#promptTokenIds ??= []
  }

  /** Adds what a choice says. Returns its delta for the agent, without and with its tool calls. */
  #addDelta(choice: Choice): { delta: ChatDelta | undefined; shown: ChatToolCallDelta[] } {
    // The whole message, from endpoints that do not stream, and from servers that call the delta so. Behind deltas it
    // repeats them.
    const message = choice['message'] as ChatDelta | null | undefined
    const said = choice.delta ?? (this.#hasDeltas ? {} : numbered(message))
    if (choice.delta) this.#hasDeltas ||= saysSomething(choice.delta)
    if (said === undefined || said === null) {
      this.#unreadable ??= choice
      return { delta: undefined, shown: [] }
    }
    const delta = asObject(said)
    // Empty deltas, a repeated finish reason and usage may follow the finish reason.
    if (this.#finishReason !== undefined && saysSomething(delta)) {
      throw new OsmosisError(
        'policy_stream_error',
        `The policy sent more after its finish_reason, which would be a second answer: ${JSON.stringify(delta).slice(0, 200)}`,
      )
    }
    if (delta['function_call']) {
      throw new OsmosisError(
        'policy_stream_error',
        'The policy sent function_call, the form of tool calls before tool_calls: have its server send tool_calls.',
      )
    }
    let hasNulls = false
    for (const key in delta) {
      const value = delta[key]
      if (value === null || value === undefined) hasNulls = true
      else if (!knownFields.has(key)) addFields(this.#more, { [key]: value })
    }
    for (const key of texts) {
      const text = asText(delta[key])
      if (text !== undefined && text !== null) this.#texts[key] = (this.#texts[key] ?? '') + text
    }
    this.#noteReadable(choice, delta)
    const calls = delta.tool_calls ? asList(delta.tool_calls) : undefined
    // Clients of OpenAI fail over a message without a role.
    const role = this.#hasRole || delta.role ? undefined : { role: 'assistant' }
    this.#hasRole = true
    if (calls === undefined && !hasNulls && role === undefined) return { delta, shown: [] }
    const { tool_calls: _calls, ...others } = delta
    return {
      delta: { ...role, ...withoutNulls(others) },
      shown: calls === undefined ? [] : this.#toolCalls.add(calls),
    }
  }

  /** An answer in fields of another API must not become an empty text. */
  #noteReadable(choice: Choice, delta: ChatDelta): void {
    if (this.#isReadable) return
    const keys = Object.keys(delta)
    this.#isReadable = keys.some((key) => key !== 'role' && knownFields.has(key))
    if (keys.some((key) => !knownFields.has(key) && delta[key] !== null))
      this.#unreadable ??= choice
  }
}

/** The delta of a whole message: its tool calls are numbered by their places. */
function numbered(message: ChatDelta | null | undefined): ChatDelta | undefined {
  if (message === undefined || message === null) return undefined
  const { tool_calls: calls } = asObject(message)
  if (!calls) return message
  return { ...message, tool_calls: calls.map((call, index) => ({ index, ...asObject(call) })) }
}

/** The names of the tools that a request offers. */
function toolNames(tools: unknown): ReadonlySet<string> {
  if (!Array.isArray(tools)) return new Set()
  return new Set(
    tools.flatMap((tool: { function?: { name?: string } } | null) => tool?.function?.name ?? []),
  )
}

function isFirst({ index }: Choice): boolean {
  return (index ?? 0) === 0
}

/** What is no list of ids becomes one that nobody takes for ids: the answer can be used, and not be trained. */
function idsOf(sent: unknown): readonly number[] {
  return Array.isArray(sent) ? (sent as number[]) : [Number.NaN]
}

/** Whether a delta has text or calls. */
export function saysSomething(delta: ChatDelta): boolean {
  return Boolean(texts.some((key) => delta[key]) || delta.tool_calls?.length)
}

/** Readers of streams fail over nulls, and do not need them. */
function withoutNulls(delta: ChatDelta): ChatDelta {
  const said = Object.entries(delta).filter(([, value]) => value !== null && value !== undefined)
  return Object.fromEntries(said)
}

// Answers have tens of thousands of tokens; that many arguments of `push` overflow the stack.
function append<T>(list: T[], items: readonly T[]): void {
  for (const item of items) list.push(item)
}

/**
 * Returns a text of an answer, which may be missing. Throws a TypeError for anything else, such as a list of parts:
 * it must not become an empty answer.
 */
function asText(value: unknown): string | null | undefined {
  if (typeof value === 'string' || value === null || value === undefined) return value
  throw new TypeError('expected a text')
}

function asList<T>(value: T[]): T[] {
  if (Array.isArray(value)) return value
  throw new TypeError('expected a list')
}

/** Returns an object of an answer. Throws a TypeError for anything else. */
function asObject<T extends object>(value: T): T {
  if (isJsonObject(value)) return value
  throw new TypeError('expected an object')
}
