import { randomUUID } from 'node:crypto'

import { OsmosisError, type RolloutGroup } from '@osmosis/core'
import {
  leasedRolloutRequestSchema,
  rolloutRequestSchema,
  type LeasedRolloutRequestBody,
  type RolloutRequestBody,
} from '@osmosis/protocol/wire'
import type { z } from 'zod'

/** One rollout to run: a dataset row and how long it may take. */
export interface RolloutOrder {
  /** A single path segment of printable ASCII. Default: a new one. */
  readonly rolloutId?: string
  /** The prompt, as chat messages. */
  readonly initialMessages: readonly Readonly<Record<string, unknown>>[]
  /** Reference answer; reaches the grader only. Default: null. */
  readonly label?: string | null
  /** Reaches workflow and grader. Default: null. */
  readonly metadata?: Readonly<Record<string, unknown>> | null
  /**
   * The group and attempt, for workflows and graders of this SDK. A GroupGrader also needs the size. Default:
   * none, and the key is not sent.
   */
  readonly group?: RolloutGroup | null
  /** Copied by the server into the archived trajectory. Default: null. */
  readonly extraFields?: Readonly<Record<string, unknown>> | null
  /** Budget of the workflow, queue time included. Seconds. Default: null, unbounded. */
  readonly agentTimeoutSeconds?: number | null
  /** Budget of the grader. Seconds. Default: null, unbounded. */
  readonly graderTimeoutSeconds?: number | null
  /** Whether to grade the rollout; if not, the completion callback ends it. Default: true. */
  readonly grade?: boolean
  /**
   * How long to wait for the end of the rollout once the server has accepted it. Milliseconds.
   * Default: null, no limit.
   */
  readonly timeoutMs?: number | null
}

/** Where the controller of a rollout listens, and the keys it expects. */
export interface ReturnAddress {
  /** Base URL of the controller. */
  readonly url: string
  readonly callbackToken: string
  readonly policyToken: string
}

/** A rollout whose result is fetched. Its model calls go to an endpoint that the caller names. */
export interface LeasedOrder extends Omit<RolloutOrder, 'timeoutMs'> {
  /**
   * Base URL of the policy, which the rollout server can reach; `/chat/completions` is appended.
   * `createPolicyEndpoint` opens one.
   */
  readonly chatCompletionsUrl: string
  /** Bearer of the model calls, not the key of the rollout server. Default: none is sent. */
  readonly llmApiKey?: string | null
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
  return checkedOrder(rolloutRequestSchema, {
    rollout_id: rolloutId,
    ...fieldsOf(order),
    chat_completions_url: base,
    controller_api_key: address.callbackToken,
    llm_api_key: address.policyToken,
    completion_callback_url: `${base}/completion`,
    grader_callback_url: (order.grade ?? true) ? `${base}/grader` : null,
  })
}

/**
 * Builds the body of `POST /rollout` without callbacks.
 *
 * @throws OsmosisError with code `invalid_request` naming the fields the protocol does not allow
 */
export function toLeasedRequest(order: LeasedOrder): LeasedRolloutRequestBody {
  return checkedOrder(leasedRolloutRequestSchema, {
    rollout_id: order.rolloutId ?? randomUUID().replaceAll('-', ''),
    ...fieldsOf(order),
    chat_completions_url: order.chatCompletionsUrl,
    llm_api_key: order.llmApiKey ?? null,
    grade: order.grade ?? true,
  })
}

/** The fields of both bodies. */
function fieldsOf(order: Omit<RolloutOrder, 'timeoutMs'>): object {
  return {
    initial_messages: order.initialMessages,
    label: order.label ?? null,
    metadata: order.metadata ?? null,
    agent_timeout_sec: order.agentTimeoutSeconds ?? null,
    grader_timeout_sec: order.graderTimeoutSeconds ?? null,
    extra_fields: order.extraFields ?? null,
    ...(order.group ? { group: order.group } : {}),
  }
}

/**
 * Checks a body before it is sent, because JSON would turn an infinite timeout into null, which means no limit.
 *
 * @throws OsmosisError with code `invalid_request` naming the fields the protocol does not allow
 */
export function checkedOrder<Body>(schema: z.ZodType<Body>, body: object): Body {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw new OsmosisError('invalid_request', `The rollout cannot be sent: ${faults.join('; ')}`)
}
