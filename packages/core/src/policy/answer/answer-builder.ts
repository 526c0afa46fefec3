import type { CallAliases } from '../call-aliases.ts'
import type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatToolCall,
  ChatToolCallDelta,
  ChatUsage,
} from '../chat-completion.ts'
import { brokenAnswer, quoted } from './sent/broken-answer.ts'
import { knownFields, saysSomething, textNames } from './sent/chunk-shape.ts'
import type { SentChunk } from './sent/server-habits.ts'
import { phrases, says } from './sent/words.ts'
import { StreamedToolCalls } from './streamed-tool-calls.ts'
import { addFields } from './unknown-fields.ts'

type Choice = ChatCompletionChunk['choices'][number]

/** How servers say that an answer reached the limit of its length. */
const atLimit = phrases(
  'length, max tokens, max new tokens, max output tokens, max completion tokens',
)

/**
 * Builds one answer of chunks in one form. A chunk may have one token or the whole answer. The record has what the policy
 * wrote; agents get ids that are unique, names that are whole, and an end in the words of chat completions.
 */
export class AnswerBuilder {
  /**
   * `open`: nothing was said. `said`: text or calls were, and more may follow. `ended`: behind it only usage follows. A finish
   * reason ends what was said; some servers send one before that, which counts at the end.
   */
  #state: 'open' | 'said' | 'ended' = 'open'
  /** As the server says it. */
  #finishReason: string | undefined
  /** As the agent gets it when the answer has ended. */
  #shownReason = 'stop'
  #id: string | undefined
  /** As the agent gets it. */
  #shownId: string | undefined
  #created: number | undefined
  #model: string | undefined
  readonly #texts: Record<string, string> = {}
  /** Other fields of the message, which go back to the policy with it. */
  readonly #more: Record<string, unknown> = {}
  readonly #aliases: CallAliases
  readonly #toolCalls: StreamedToolCalls
  readonly #logprobs: unknown[] = []
  readonly #tokenIds: number[] = []
  #promptTokenIds: number[] | undefined
  #weightVersion: string | undefined
  #usage: ChatUsage | undefined

  /**
   * @param request - that is answered: the tools that it offers
   * @param aliases - of the sample
   */
  constructor(request: Partial<ChatCompletionRequest>, aliases: CallAliases) {
    this.#aliases = aliases
    let offered: ReadonlySet<string> | undefined
    this.#toolCalls = new StreamedToolCalls(
      aliases,
      () => (offered ??= toolNames(request['tools'])),
    )
  }

  /** Whether the answer is whole. */
  get hasEnded(): boolean {
    return this.#state === 'ended'
  }

  /** Whether tool calls have ids that were generated here. */
  get hasOwnIds(): boolean {
    return this.#toolCalls.hasOwnIds
  }

  /** Adds a chunk, with the choice that is read of it. Returns it as the agent gets it. */
  add({ chunk, choice }: SentChunk): ChatCompletionChunk {
    // Azure begins with a chunk in which they are empty.
    if (!this.#id && typeof chunk.id === 'string') {
      this.#id = chunk.id
      this.#shownId = this.#aliases.answerIdFor(chunk.id)
    }
    this.#created ||= chunk.created
    this.#model ||= chunk.model
    if (chunk.usage) this.#usage = chunk.usage
    this.#notePromptIds(chunk.prompt_token_ids)
    const version: unknown = chunk.metadata?.weight_version
    if (typeof version === 'string') this.#weightVersion = version
    const shown = choice && this.#addChoice(choice)
    const choices = shown && !chunk.choices.includes(shown) ? [shown] : chunk.choices
    if (this.#shownId !== this.#id) return { ...chunk, id: this.#shownId ?? '', choices }
    return choices === chunk.choices ? chunk : { ...chunk, choices }
  }

  /**
   * To be called when no more chunks come. Returns what the agent gets behind the last one: calls and a finish reason that
   * have not come before.
   *
   * @param isDone - whether the server said that this was all
   * @throws OsmosisError with code `policy_stream_error` when the answer is not whole
   */
  end(isDone: boolean): ChatCompletionChunk | undefined {
    if (this.#state === 'ended') return undefined
    if (!isDone && (this.#state === 'said' || this.#finishReason === undefined)) {
      throw brokenAnswer(
        'The answer of the policy ended before its finish_reason: an incomplete answer is not used.',
      )
    }
    const calls = this.#end()
    const delta = calls.length > 0 ? { tool_calls: calls } : {}
    const choice = { index: 0, delta, finish_reason: this.#shownReason }
    return { ...this.#head(this.#shownId), object: 'chat.completion.chunk', choices: [choice] }
  }

  /** The answer as the policy gave it, for the record. A new object each time. */
  recorded(): ChatCompletion {
    return this.#completion(this.#id, this.#toolCalls.recorded, this.#finishReason ?? null)
  }

  /**
   * The answer as the agent gets it, as an endpoint without streaming sends it. A new object each time, so that
   * readers may modify it. Complete when the answer has ended.
   */
  completion(): ChatCompletion {
    return this.#completion(this.#shownId, this.#toolCalls.shown, this.#shownReason)
  }

  /** Returns the choice as the agent gets it. */
  #addChoice(choice: Choice): Choice {
    const { delta = {}, finish_reason: reason, logprobs, token_ids: ids } = choice
    if (saysSomething(delta)) {
      if (this.#state === 'ended') {
        throw brokenAnswer(
          `The policy sent more after its finish_reason, which would be a second answer: ${quoted(delta)}`,
        )
      }
      this.#state = 'said'
    }
    for (const key in delta) {
      const said = delta[key]
      if (!knownFields.has(key)) addFields(this.#more, { [key]: said })
      else if (textNames.has(key)) this.#texts[key] = (this.#texts[key] ?? '') + (said as string)
    }
    if (logprobs?.content) append(this.#logprobs, logprobs.content)
    if (ids) append(this.#tokenIds, idsOf(ids))
    const { tool_calls: sent } = delta
    const calls = sent ? this.#toolCalls.add(sent) : []
    if (reason && this.#state === 'said') {
      this.#finishReason = reason
      calls.push(...this.#end())
    } else if (reason && this.#state === 'open') this.#finishReason ??= reason

    const shownReason = reason && this.#state === 'ended' ? this.#shownReason : null
    const isAsSent = choice.delta && !sent && calls.length === 0
    if (isAsSent && shownReason === (reason ?? null)) return choice
    const { tool_calls: _calls, ...others } = delta
    const shown = calls.length > 0 ? { ...others, tool_calls: calls } : others
    return { ...choice, delta: shown, finish_reason: shownReason }
  }

  #end(): ChatToolCallDelta[] {
    this.#state = 'ended'
    const shown = this.#endForAgent()
    this.#shownReason = shown
    return this.#toolCalls.end(shown === 'length' || shown === 'content_filter')
  }

  /**
   * How the answer ended, for the agent, in the words of chat completions: frameworks run calls only behind
   * `tool_calls`, and some ask again behind a word that they do not know. Behind `length` frameworks differ: some run
   * calls whose arguments are whole, some end there. As most do, calls of which the limit cut nothing run in all of them.
   */
  #endForAgent(): string {
    const reason = this.#finishReason ?? 'stop'
    if (says(reason, atLimit)) return this.#toolCalls.areWhole ? 'tool_calls' : 'length'
    if (reason === 'content_filter') return reason
    return this.#toolCalls.size > 0 ? 'tool_calls' : 'stop'
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
      ...this.#head(id),
      object: 'chat.completion',
      choices: [choice],
    }
    if (this.#usage) completion.usage = { ...this.#usage }
    if (this.#promptTokenIds) completion.prompt_token_ids = [...this.#promptTokenIds]
    if (this.#weightVersion !== undefined) {
      completion.metadata = { weight_version: this.#weightVersion }
    }
    return completion
  }

  #head(id = ''): { id: string; created: number; model: string } {
    return { id, created: this.#created ?? 0, model: this.#model ?? '' }
  }

  #message(calls: ChatToolCall[]): AssistantMessage {
    const { content, ...others } = this.#texts
    const message: AssistantMessage = {
      role: 'assistant',
      // Streams start with an empty text even when only tool calls follow.
      content: content || calls.length === 0 ? (content ?? '') : null,
    }
    Object.assign(message, others, this.#more)
    if (calls.length > 0) message.tool_calls = calls
    return message
  }

  /** Servers repeat them, or send an empty list in later chunks. */
  #notePromptIds(sent: unknown): void {
    if (sent === undefined || sent === null) return
    const ids = idsOf(sent)
    if (ids.length > 0) this.#promptTokenIds = [...ids]
    else this.#promptTokenIds ??= []
  }
}

/** The names of the tools that a request offers. */
function toolNames(tools: unknown): ReadonlySet<string> {
  if (!Array.isArray(tools)) return new Set()
  return new Set(
    tools.flatMap((tool: { function?: { name?: string } } | null) => tool?.function?.name ?? []),
  )
}

/** What is no list of ids becomes one that nobody takes for ids: the answer can be used, and not be trained. */
function idsOf(sent: unknown): readonly number[] {
  return Array.isArray(sent) ? (sent as number[]) : [Number.NaN]
}

// Answers have tens of thousands of tokens; that many arguments of `push` overflow the stack.
function append<T>(list: T[], items: readonly T[]): void {
  for (const item of items) list.push(item)
}
