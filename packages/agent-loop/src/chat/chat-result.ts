import type { AssistantMessage, ChatToolCall } from '@osmosis/core/policy'

import { OsmosisValidationError } from '../rollout-errors.ts'
import { fieldsOf, isRecord } from './message-fields.ts'

/** Tokens of one call; counts that the trainer did not report are missing. */
export interface ChatResultUsage {
  readonly prompt_tokens?: number
  readonly completion_tokens?: number
  readonly total_tokens?: number
}

/** One answer of the policy. */
export interface ChatResult {
  /** In chat completions form; append it to the conversation as it is. */
  readonly message: AssistantMessage
  /** Never null: empty when the trainer sent none. */
  readonly usage: ChatResultUsage
  /** `stop` when the trainer sent none; null when it sent null. */
  readonly finishReason: string | null
  /** Empty when the trainer sent none. */
  readonly tokenIds: readonly number[]
  /** Empty when the trainer sent none. */
  readonly logprobs: readonly unknown[]
  readonly hasToolCalls: boolean
  /** Tool calls of the message; may be empty. */
  readonly toolCalls: readonly ChatToolCall[]
  /** Text of the message; null when it only calls tools. */
  readonly content: string | null
}

/**
 * Reads an answer of the trainer.
 *
 * @throws OsmosisValidationError with code `policy_stream_error` when it contains no message
 */
export function toChatResult(answer: unknown): ChatResult {
  const { choices, usage, token_ids: tokenIds, logprobs } = fieldsOf(answer)
  const choice = fieldsOf(Array.isArray(choices) ? choices[0] : undefined)
  const message = messageIn(answer)
  if (message === undefined) {
    const received = JSON.stringify(answer).slice(0, 200)
    throw new OsmosisValidationError(
      'policy_stream_error',
      `The trainer answered a model call without choices[0].message: ${received}`,
    )
  }
  const { finish_reason: finishReason = 'stop' } = choice
  const toolCalls = Array.isArray(message.tool_calls) ? message.tool_calls : []
  return {
    message,
    usage: toUsage(fieldsOf(usage)),
    finishReason: typeof finishReason === 'string' ? finishReason : null,
    tokenIds: Array.isArray(tokenIds) ? (tokenIds as number[]) : [],
    logprobs: Array.isArray(logprobs) ? (logprobs as unknown[]) : [],
    hasToolCalls: toolCalls.length > 0,
    toolCalls,
    content: typeof message.content === 'string' ? message.content : null,
  }
}

/** The metadata of an answer. */
export interface AnswerNames {
  readonly id: string | undefined
  readonly model: string | null
}

export function namesOfAnswer(answer: unknown): AnswerNames {
  const { id, model } = fieldsOf(answer)
  return {
    id: typeof id === 'string' ? id : undefined,
    model: typeof model === 'string' ? model : null,
  }
}

/** The first choice's message in a parsed answer. */
export function messageIn(answer: unknown): AssistantMessage | undefined {
  const { choices } = fieldsOf(answer)
  const { message } = fieldsOf(Array.isArray(choices) ? choices[0] : undefined)
  return isRecord(message) ? (message as AssistantMessage) : undefined
}

function toUsage(usage: Readonly<Record<string, unknown>>): ChatResultUsage {
  const numbers = Object.entries(usage).filter(([, value]) => typeof value === 'number')
  return Object.fromEntries(numbers)
}
