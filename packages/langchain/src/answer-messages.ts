import { AIMessage, AIMessageChunk, type UsageMetadata } from '@langchain/core/messages'
import {
  argumentsObject,
  type ChatCompletion,
  type ChatCompletionChunk,
  nameForAgent,
} from '@osmosis/core/policy'

/**
 * An answer of the policy as a message of LangChain. A call with malformed arguments is not among its
 * `invalid_tool_calls`, because agents end there: the policy is to get an error, and to try again.
 */
export function toAIMessage(completion: ChatCompletion): AIMessage {
  const { content, tool_calls: calls = [], refusal } = messageOf(completion)
  const reasoning = reasoningOf(messageOf(completion))
  return new AIMessage({
    content: content ?? '',
    tool_calls: calls.map(({ id, function: { name, arguments: written } }) => ({
      type: 'tool_call',
      id,
      name: nameForAgent(name, written),
      args: argumentsObject(written) ?? {},
    })),
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

/** What is known at the end only. Tool calls come whole: LangChain would complete the arguments of a call that was cut. */
export function toLastChunk(completion: ChatCompletion): AIMessageChunk {
  const { tool_calls: calls = [] } = messageOf(completion)
  return new AIMessageChunk({
    content: '',
    tool_call_chunks: calls.map(({ id, function: { name, arguments: written } }, place) => ({
      type: 'tool_call_chunk',
      id,
      name: nameForAgent(name, written),
      args: argumentsObject(written) ? written : '{}',
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

function metadataOf(completion: ChatCompletion): Record<string, unknown> {
  const [choice] = completion.choices
  return {
    model_name: completion.model,
    ...(choice?.finish_reason ? { finish_reason: choice.finish_reason } : {}),
    ...(choice?.logprobs ? { logprobs: choice.logprobs } : {}),
  }
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
