import type { LlmResponse } from '@google/adk'
import type { ChatCompletion, ChatCompletionChunk } from '@osmosis/core/policy'

import type { AdkContent, AdkPart } from './adk-types.ts'

const finishReasons: Readonly<Record<string, string>> = {
  length: 'MAX_TOKENS',
  content_filter: 'SAFETY',
}

/** An answer of the policy as a turn of Gemini. Malformed arguments become an empty object. */
export function toContent({ choices }: ChatCompletion): AdkContent {
  const {
    content,
    refusal,
    reasoning_content,
    reasoning,
    tool_calls = [],
  } = choices[0]?.message ?? {}
  const thinking = reasoning_content || reasoning
  const text = `${content ?? ''}${refusal ?? ''}`
  const parts: AdkPart[] = [
    ...(thinking ? [{ text: thinking, thought: true }] : []),
    ...(text === '' && tool_calls.length > 0 ? [] : [{ text }]),
    ...tool_calls.map(({ id, function: { name, arguments: written } }) => ({
      functionCall: { id, name, args: parseObject(written) },
    })),
  ]
  return { role: 'model', parts }
}

/** An answer of the policy as a whole. */
export function toResponse(completion: ChatCompletion, content: AdkContent): LlmResponse {
  const { choices, usage, model } = completion
  const reason = finishReasons[choices[0]?.finish_reason ?? ''] ?? 'STOP'
  return {
    content,
    // Its enum belongs to a package that users need not have.
    finishReason: reason as never,
    modelVersion: model,
    ...(usage
      ? {
          usageMetadata: {
            promptTokenCount: usage.prompt_tokens,
            candidatesTokenCount: usage.completion_tokens,
            totalTokenCount: usage.total_tokens,
          },
        }
      : {}),
  }
}

/** A piece of text or of thinking; undefined for a chunk without either. Calls come with the whole answer. */
export function toPartial(chunk: ChatCompletionChunk): LlmResponse | undefined {
  const delta = chunk.choices?.find(({ index }) => (index ?? 0) === 0)?.delta
  const thinking = delta?.reasoning_content || delta?.reasoning
  const text = `${delta?.content ?? ''}${delta?.refusal ?? ''}`
  const parts: AdkPart[] = [
    ...(thinking ? [{ text: thinking, thought: true }] : []),
    ...(text === '' ? [] : [{ text }]),
  ]
  return parts.length === 0 ? undefined : { content: { role: 'model', parts }, partial: true }
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
