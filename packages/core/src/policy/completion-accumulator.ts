import { OsmosisError } from '../errors.ts'
import type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChunk,
  ChatDelta,
  ChatUsage,
} from './chat-completion.ts'
import { asObject, asText } from './answer-shapes.ts'
import { StreamedToolCalls } from './streamed-tool-calls.ts'

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
