import { randomUUID } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import { leasedRolloutRequestSchema, type LeasedRolloutRequestBody } from '@osmosis/runtime/wire'

import type { RolloutOrder } from '../workflow/rollout-order.ts'

/** A rollout whose result is fetched. Its model calls go to an endpoint that the caller names. */
export interface LeasedOrder extends Omit<RolloutOrder, 'timeoutMs'> {
  /**
   * Base URL of the policy, which the rollout server can reach; `/chat/completions` is appended.
   * `createPolicyEndpoint` opens one.
   */
  readonly chatCompletionsUrl: string
  /** Bearer of the model calls; it is not the key of the rollout server. Default: none is sent. */
  readonly llmApiKey?: string | null
}

/**
 * Builds the body of `POST /rollout` without callbacks.
 *
 * @throws OsmosisError with code `invalid_request` naming the fields the protocol does not allow
 */
export function toLeasedRequest(order: LeasedOrder): LeasedRolloutRequestBody {
  const parsed = leasedRolloutRequestSchema.safeParse({
    rollout_id: order.rolloutId ?? randomUUID().replaceAll('-', ''),
    initial_messages: order.initialMessages,
    label: order.label ?? null,
    metadata: order.metadata ?? null,
    chat_completions_url: order.chatCompletionsUrl,
    llm_api_key: order.llmApiKey ?? null,
    grade: order.grade ?? true,
    agent_timeout_sec: order.agentTimeoutSeconds ?? null,
    grader_timeout_sec: order.graderTimeoutSeconds ?? null,
    extra_fields: order.extraFields ?? null,
    ...(order.group ? { group: order.group } : {}),
  })
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw new OsmosisError('invalid_request', `The rollout cannot be sent: ${faults.join('; ')}`)
}
