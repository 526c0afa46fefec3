import type { LoopCompletedBody, RolloutMetrics } from '@osmosis/runtime/wire'

import type { RolloutResult } from '../rollout-result.ts'
import type { MessageTexts } from '../chat/message-texts.ts'

/** What a `completed` call tells besides the result. */
export interface CompletedParts {
  readonly rolloutId: string
  readonly metrics: RolloutMetrics
  readonly texts: MessageTexts
}

/**
 * The body of the one `completed` call of a rollout.
 *
 * @throws TypeError when a message has no JSON form
 */
export function completedBody(result: RolloutResult, parts: CompletedParts): string {
  const messages = result.finalMessages.map((message) => parts.texts.of(message))
  return encode(`[${messages.join(',')}]`, result, parts)
}

/** The body for a rollout that failed: with the conversation it got to. */
export function failedBody(
  message: string,
  conversationJson: string,
  parts: Omit<CompletedParts, 'texts'>,
): string {
  const failure = {
    status: 'ERROR',
    finishReason: 'error',
    errorMessage: message,
    reward: null,
  } as const
  return encode(conversationJson, failure, parts)
}

function encode(
  messagesJson: string,
  { status, finishReason, errorMessage, reward }: Omit<RolloutResult, 'finalMessages'>,
  { rolloutId, metrics }: Omit<CompletedParts, 'texts'>,
): string {
  const head = JSON.stringify({
    rollout_id: rolloutId,
    status,
  } satisfies Partial<LoopCompletedBody>)
  const tail = JSON.stringify({
    ...(finishReason === null ? {} : { finish_reason: finishReason }),
    ...(errorMessage === null ? {} : { error_message: errorMessage }),
    ...(reward === null ? {} : { reward }),
    metrics,
    extra_fields: {},
  } satisfies Partial<LoopCompletedBody>)
  return `${head.slice(0, -1)},"final_messages":${messagesJson},${tail.slice(1)}`
}
