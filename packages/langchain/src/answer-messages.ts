import { AIMessage, AIMessageChunk, type UsageMetadata } from '@langchain/core/messages'
import {
  argumentsObject,
  type ChatCompletion,
  type ChatCompletionChunk,
  type ChatToolCall,
} from '@osmosis/core/policy'

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

/** A piece of an answer as a chunk of LangChain; undefined for one without anything to read. */
export function toChunk(chunk: ChatCompletionChunk): AIMessageChunk | undefined {
  const delta = chunk.choices?.find(({ index }) => (index ?? 0) === 0)?.delta
  if (!delta) return undefined
  const { content, refusal } = delta
  const reasoning = reasoningOf(delta)
  if (!content && !reasoning && !refusal) return undefined
  return new AIMessageChunk({
    content: content ?? '',
    additional_kwargs: {
      ...(reasoning ? { reasoning_content: reasoning } : {}),
      ...(refusal ? { refusal } : {}),
    },
  })
}

/**
 * What is known at the end only. Tool calls come whole: LangChain completes the arguments of a call that was cut, and
 * would run it. A JSON text around malformed ones makes it list them as invalid.
 */
export function toLastChunk(completion: ChatCompletion): AIMessageChunk {
  const { tool_calls: calls = [] } = messageOf(completion)
  return new AIMessageChunk({
    content: '',
    tool_call_chunks: calls.map(({ id, function: { name, arguments: written } }, place) => ({
      type: 'tool_call_chunk',
      id,
      name,
      args: argumentsObject(written) ? written : JSON.stringify(written),
      // From 1: in LangChain's events the text of an answer is block 0.
      index: place + 1,
    })),
    response_metadata: metadataOf(completion),
    ...usageFields(completion),
  })
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
  const object = argumentsObject(text)
  if (object !== undefined) return object
  try {
    JSON.parse(text)
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
