import { AIMessage, AIMessageChunk, type UsageMetadata } from '@langchain/core/messages'
import type { ChatCompletion, ChatCompletionChunk, ChatToolCall } from '@osmosis/core/policy'

/** Where a message has the order of its tool calls: LangChain splits them into two lists. */
export const callOrderKey = 'tool_call_order'

/** An answer of the policy as a message of LangChain. */
export function toAIMessage(completion: ChatCompletion): AIMessage {
  const { content, tool_calls: calls = [], refusal } = messageOf(completion)
  const reasoning = reasoningOf(messageOf(completion))
  const tool_calls: AIMessage['tool_calls'] = []
  const invalid_tool_calls: AIMessage['invalid_tool_calls'] = []
  for (const call of calls) {
    const { id, function: called } = call
    const { name } = called
    const parsed = parseArguments(called.arguments)
    if (typeof parsed === 'object') {
      tool_calls.push({ type: 'tool_call', id, name, args: parsed })
    } else {
      const args = called.arguments
      invalid_tool_calls.push({ type: 'invalid_tool_call', id, name, args, error: parsed })
    }
  }
  return new AIMessage({
    content: content ?? '',
    tool_calls,
    invalid_tool_calls,
    additional_kwargs: {
      ...(reasoning ? { reasoning_content: reasoning } : {}),
      ...(refusal ? { refusal } : {}),
    },
    response_metadata: metadataOf(completion),
    ...usageFields(completion),
  })
}

/** The pieces of an answer as chunks of LangChain. */
export class AnswerChunks {
  readonly #calls: { readonly id: string; readonly index: number | undefined }[] = []

  /** Undefined for a piece without anything to read. */
  add(chunk: ChatCompletionChunk): AIMessageChunk | undefined {
    const delta = chunk.choices?.find(({ index }) => (index ?? 0) === 0)?.delta
    if (!delta) return undefined
    const { content, refusal, tool_calls = [] } = delta
    const reasoning = reasoningOf(delta)
    const tool_call_chunks = tool_calls.flatMap((call) => this.#callChunk(call) ?? [])
    if (!content && !reasoning && !refusal && tool_call_chunks.length === 0) return undefined
    return new AIMessageChunk({
      content: content ?? '',
      tool_call_chunks,
      additional_kwargs: {
        ...(reasoning ? { reasoning_content: reasoning } : {}),
        ...(refusal ? { refusal } : {}),
      },
    })
  }

  /** What is known at the end only. */
  end(completion: ChatCompletion): AIMessageChunk {
    return new AIMessageChunk({
      content: '',
      response_metadata: metadataOf(completion),
      ...usageFields(completion),
    })
  }

  /** Id and name once, whatever the endpoint repeats: LangChain would put them together. */
  #callChunk({
    id,
    index,
    function: called = {},
  }: NonNullable<
    NonNullable<ChatCompletionChunk['choices'][number]['delta']>['tool_calls']
  >[number]): NonNullable<AIMessageChunk['tool_call_chunks']>[number] | undefined {
    const known = this.#calls.findLastIndex((call) =>
      id ? call.id === id : typeof index !== 'number' || call.index === index,
    )
    if (known === -1 && !id) return undefined
    const isNew = known === -1
    if (isNew && id) this.#calls.push({ id, index })
    return {
      type: 'tool_call_chunk',
      ...(isNew && id ? { id, name: called.name ?? '' } : {}),
      args: called.arguments ?? '',
      // From 1: in LangChain's events the text of an answer is block 0.
      index: isNew ? this.#calls.length : known + 1,
    }
  }
}

type Reasoned = { reasoning_content?: string | null; reasoning?: string | null }

/** vLLM sends it under both names while it renames the field. */
function reasoningOf({ reasoning_content, reasoning }: Reasoned): string {
  return reasoning_content || reasoning || ''
}

function messageOf({ choices }: ChatCompletion): ChatCompletion['choices'][number]['message'] {
  return choices[0]?.message ?? { role: 'assistant', content: null }
}

/** The arguments, or what is wrong with them. */
function parseArguments(text: string): Record<string, unknown> | string {
  // Some policies call a tool without parameters with nothing.
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>
    }
    return 'Tool arguments must be a JSON object.'
  } catch (error) {
    return `Tool arguments are not valid JSON: ${(error as Error).message}`
  }
}

function metadataOf(completion: ChatCompletion): Record<string, unknown> {
  const [choice] = completion.choices
  const calls = choice?.message.tool_calls ?? []
  return {
    model_name: completion.model,
    ...(choice?.finish_reason ? { finish_reason: choice.finish_reason } : {}),
    ...(choice?.logprobs ? { logprobs: choice.logprobs } : {}),
    ...(isSplit(calls) ? { [callOrderKey]: calls.map(({ id }) => id) } : {}),
  }
}

/** Whether LangChain has the calls in two lists. */
function isSplit(calls: readonly ChatToolCall[]): boolean {
  const areValid = calls.map((call) => typeof parseArguments(call.function.arguments) === 'object')
  return areValid.includes(true) && areValid.includes(false)
}

/** Not for a usage that the endpoint did not report. Its declared type differs between versions of LangChain. */
function usageFields(completion: ChatCompletion): { usage_metadata?: never } {
  const usage = usageOf(completion)
  return usage ? { usage_metadata: usage as never } : {}
}

/** The usage as LangChain has it; undefined when the endpoint did not report it. */
export function usageOf({ usage }: ChatCompletion): UsageMetadata | undefined {
  if (!usage) return undefined
  const { prompt_tokens: input_tokens, completion_tokens: output_tokens } = usage
  const total_tokens = usage.total_tokens ?? input_tokens + output_tokens
  const read = details(usage['prompt_tokens_details'])['cached_tokens']
  const reasoning = details(usage['completion_tokens_details'])['reasoning_tokens']
  return {
    input_tokens,
    output_tokens,
    total_tokens,
    ...(read ? { input_token_details: { cache_read: read } } : {}),
    ...(reasoning ? { output_token_details: { reasoning } } : {}),
  }
}

function details(value: unknown): Readonly<Record<string, number | undefined>> {
  return (value ?? {}) as Readonly<Record<string, number | undefined>>
}
