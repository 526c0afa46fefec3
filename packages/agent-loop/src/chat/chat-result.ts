import { isJsonObject, parseJson } from '@osmosis/core/http'
import type { AssistantMessage, ChatToolCall } from '@osmosis/core/policy'

import { OsmosisValidationError } from '../rollout-errors.ts'
import { fieldsOf } from './message-fields.ts'

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

/** An answer of the trainer. */
export interface ChatAnswer {
  /** What the loop gets of it. */
  readonly result: ChatResult
  readonly id: string | undefined
  readonly model: string | null
}

/**
 * Reads an answer of the trainer.
 *
 * @throws OsmosisValidationError with code `policy_stream_error` when it contains no message
 */
export function readAnswer(text: string): ChatAnswer {
  const answer = parseJson(text)
  const message = messageIn(answer)
  if (message === undefined) {
    const problem =
      answer === undefined ? 'with something that is not JSON' : 'without choices[0].message'
    throw new OsmosisValidationError(
      'policy_stream_error',
      `The trainer answered a model call ${problem}: ${text.slice(0, 200)}`,
    )
  }
  const { id, model, usage, token_ids: tokenIds, logprobs } = fieldsOf(answer)
  const { finish_reason: finishReason = 'stop' } = choiceIn(answer)
  const toolCalls = listOf(message.tool_calls) as readonly ChatToolCall[]
  return {
    result: {
      message,
      usage: toUsage(fieldsOf(usage)),
      finishReason: typeof finishReason === 'string' ? finishReason : null,
      tokenIds: listOf(tokenIds) as readonly number[],
      logprobs: listOf(logprobs),
      hasToolCalls: toolCalls.length > 0,
      toolCalls,
      content: typeof message.content === 'string' ? message.content : null,
    },
    id: typeof id === 'string' ? id : undefined,
    model: typeof model === 'string' ? model : null,
  }
}

/** The first choice's message in a parsed answer. */
export function messageIn(answer: unknown): AssistantMessage | undefined {
  const { message } = choiceIn(answer)
  return isJsonObject(message) ? (message as AssistantMessage) : undefined
}

function choiceIn(answer: unknown): Readonly<Record<string, unknown>> {
  const { choices } = fieldsOf(answer)
  return fieldsOf(listOf(choices)[0])
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : []
}

function toUsage(usage: Readonly<Record<string, unknown>>): ChatResultUsage {
  const numbers = Object.entries(usage).filter(([, value]) => typeof value === 'number')
  return Object.fromEntries(numbers)
}
