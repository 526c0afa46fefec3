import { OsmosisError } from '@osmosis/core'
import { rolloutRequestSchema, type RolloutRequestBody } from '@osmosis/core/wire'

import type { RolloutOrder } from './rollout-order.ts'

/** Where the controller of a rollout listens, and the keys it expects. */
export interface ReturnAddress {
  /** Base URL of the controller. */
  readonly url: string
  readonly callbackToken: string
  readonly policyToken: string
}

/**
 * Builds the body of `POST /rollout`: every key, nulls included.
 *
 * @throws OsmosisError with code `invalid_request` naming the fields the protocol does not allow
 */
export function toRolloutRequest(
  rolloutId: string,
  order: RolloutOrder,
  address: ReturnAddress,
): RolloutRequestBody {
  const base = `${address.url}/v1/rollouts/${encodeURIComponent(rolloutId)}`
  const body = {
    rollout_id: rolloutId,
    initial_messages: order.initialMessages,
    label: order.label ?? null,
    metadata: order.metadata ?? null,
    chat_completions_url: base,
    controller_api_key: address.callbackToken,
    llm_api_key: address.policyToken,
    completion_callback_url: `${base}/completion`,
    grader_callback_url: (order.grade ?? true) ? `${base}/grader` : null,
    agent_timeout_sec: order.agentTimeoutSeconds ?? null,
    grader_timeout_sec: order.graderTimeoutSeconds ?? null,
    extra_fields: order.extraFields ?? null,
  }
  // JSON would turn an infinite timeout into null, which means unbounded, without a word.
  const parsed = rolloutRequestSchema.safeParse(body)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw new OsmosisError('invalid_request', `The rollout cannot be sent: ${faults.join('; ')}`)
}
