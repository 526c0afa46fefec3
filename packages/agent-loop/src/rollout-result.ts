import { OsmosisError } from '@osmosis/core'

/** The outcome of a rollout: created by `ctx.complete` and `ctx.error`, returned by `run`. */
export interface RolloutResult {
  readonly status: 'COMPLETED' | 'ERROR'
  /** The whole conversation, in chat completions form. */
  readonly finalMessages: readonly object[]
  /** Why it ended: `stop`, `max_turns`, `max_tokens`, `error`, or a reason of your own. */
  readonly finishReason: string | null
  readonly errorMessage: string | null
  /** A finite number; null: the platform computes it. */
  readonly reward: number | null
}

/**
 * Checks a result: what `run` returned, or what `ctx.complete` and `ctx.error` create.
 *
 * @throws OsmosisError with code `protocol_error` or `invalid_reward` when it is not one
 */
export function checkedResult(returned: unknown): RolloutResult {
  const result = (returned ?? {}) as Partial<RolloutResult>
  const { status, finalMessages, finishReason = null, errorMessage = null, reward = null } = result
  if (status !== 'COMPLETED' && status !== 'ERROR') {
    throw new OsmosisError(
      'protocol_error',
      `run() must return the value of ctx.complete() or ctx.error(), got ${describe(returned)}.`,
    )
  }
  assertMessages(
    'final messages',
    finalMessages,
    (problem) => new OsmosisError('protocol_error', problem),
  )
  if (reward !== null && !Number.isFinite(reward)) {
    throw new OsmosisError(
      'invalid_reward',
      `A reward must be a finite number, or null if the platform computes it; got ${describe(reward)}.`,
    )
  }
  // A rollout that failed has no reward, whatever its loop says: a trainer that reads one would train on it.
  const earned = status === 'ERROR' ? null : reward
  return { status, finalMessages, finishReason, errorMessage, reward: earned }
}

/**
 * Checks that messages are an array of objects.
 *
 * @param what - what is checked, e.g. `final messages`
 * @throws the error that `toError` makes of what is wrong
 */
export function assertMessages(
  what: string,
  messages: unknown,
  toError: (problem: string) => OsmosisError,
): asserts messages is readonly object[] {
  if (!Array.isArray(messages)) {
    throw toError(`The ${what} must be an array of messages, got ${describe(messages)}.`)
  }
  const wrong = messages.findIndex(
    (message) => typeof message !== 'object' || message === null || Array.isArray(message),
  )
  if (wrong < 0) return
  throw toError(
    `The ${what} must be objects; the one at index ${wrong} is ${describe(messages[wrong])}.`,
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
