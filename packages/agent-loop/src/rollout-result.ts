import { OsmosisError } from '@osmosis/core'

/** How a rollout ended: what `ctx.complete` and `ctx.error` give and `run` returns. */
export interface RolloutResult {
  readonly status: 'COMPLETED' | 'ERROR'
  /** The whole conversation, in chat completions form. */
  readonly finalMessages: readonly object[]
  /** Why it ended: `stop`, `max_turns`, `max_tokens`, `error`, or a word of your own. */
  readonly finishReason: string | null
  readonly errorMessage: string | null
  /** A finite number; null: the platform computes it. */
  readonly reward: number | null
}

/**
 * What `run` returned, when that can be a result.
 *
 * @throws OsmosisError with code `protocol_error` or `invalid_reward` when not
 */
export function checkedResult(returned: unknown): RolloutResult {
  const result = (returned ?? {}) as Partial<RolloutResult>
  const { status, finalMessages, finishReason = null, errorMessage = null, reward = null } = result
  if (status !== 'COMPLETED' && status !== 'ERROR') {
    throw new OsmosisError(
      'protocol_error',
      `run() must return what ctx.complete() or ctx.error() gives, got ${describe(returned)}.`,
    )
  }
  assertMessages(finalMessages)
  assertReward(reward)
  return { status, finalMessages, finishReason, errorMessage, reward }
}

/** @throws OsmosisError with code `protocol_error` when it is not an array of objects */
export function assertMessages(messages: unknown): asserts messages is readonly object[] {
  if (!Array.isArray(messages)) {
    throw new OsmosisError(
      'protocol_error',
      `The final messages must be an array of messages, got ${describe(messages)}.`,
    )
  }
  const wrong = messages.findIndex(
    (message) => typeof message !== 'object' || message === null || Array.isArray(message),
  )
  if (wrong < 0) return
  throw new OsmosisError(
    'protocol_error',
    `The final messages must be objects; number ${wrong} is ${describe(messages[wrong])}.`,
  )
}

/** @throws OsmosisError with code `invalid_reward` when it is neither null nor a finite number */
export function assertReward(reward: unknown): asserts reward is number | null {
  if (reward === null || (typeof reward === 'number' && Number.isFinite(reward))) return
  throw new OsmosisError(
    'invalid_reward',
    `A reward must be a finite number, or null when the platform computes it; got ${describe(reward)}.`,
  )
}

function describe(value: unknown): string {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') {
    return String(value)
  }
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 50))
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : typeof value
}
