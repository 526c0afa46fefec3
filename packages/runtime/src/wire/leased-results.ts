import { z } from 'zod'

import {
  rolloutIdSchema,
  rolloutRequestSchema,
  rolloutStatusSchema,
  singleSampleSchema,
} from './rollout-protocol.ts'

/**
 * HTTP bodies of rollouts whose results are fetched: the caller holds a lease, renews it by asking
 * for the result, and there are no callbacks. Cancelling and health are as for other rollouts.
 */

/** Header in which the holder of a lease presents its token. */
export const leaseHeader = 'x-osmosis-rollout-lease'

const { shape } = rolloutRequestSchema

/** Body of `POST /rollout` without a `completion_callback_url`. */
export const leasedRolloutRequestSchema = z.object({
  rollout_id: rolloutIdSchema,
  initial_messages: shape.initial_messages,
  label: shape.label,
  metadata: shape.metadata,
  /** Base URL; `/chat/completions` is appended. */
  chat_completions_url: shape.chat_completions_url,
  /** Bearer of the policy. */
  llm_api_key: shape.llm_api_key,
  /** Whether rewards are asked for. */
  grade: z.boolean().default(true),
  /** Seconds; zero or less is already expired, null is unbounded. */
  agent_timeout_sec: shape.agent_timeout_sec,
  grader_timeout_sec: shape.grader_timeout_sec,
  extra_fields: shape.extra_fields,
  group: shape.group,
})
export type LeasedRolloutRequestBody = z.infer<typeof leasedRolloutRequestSchema>
/** What a caller has to write of it. */
export type LeasedRolloutRequestInput = z.input<typeof leasedRolloutRequestSchema>

/** Answer of `POST /rollout`, with status 202, to a body without a `completion_callback_url`. */
export const leasedRolloutAcceptedSchema = z.object({
  rollout_id: z.string(),
  status: z.literal('queued'),
  polling_lease_token: z.string().min(1),
  /** Longest time a request for the result takes, unless the status changes. Seconds. */
  result_wait_timeout_sec: z.number().positive(),
  /** The rollout ends when the result was not asked for during this time. Seconds. */
  polling_lease_timeout_sec: z.number().positive(),
})
export type LeasedRolloutAcceptedBody = z.infer<typeof leasedRolloutAcceptedSchema>

/** Why a rollout whose result is fetched failed. */
export type LeasedErrorCategory =
  | 'timeout'
  | 'validation_error'
  | 'http_error'
  | 'agent_error'
  /** Nobody asked for the result in time. */
  | 'lease_expired'
  /** The server failed, not the rollout. */
  | 'internal_error'
export const leasedErrorCategorySchema: z.ZodType<LeasedErrorCategory> = z.enum([
  'timeout',
  'validation_error',
  'http_error',
  'agent_error',
  'lease_expired',
  'internal_error',
])

/** Answer of `GET /rollout/{id}/result`: while the rollout continues, all but its status is null. */
export const leasedResultSchema = z.object({
  rollout_id: z.string(),
  status: rolloutStatusSchema,
  /** Null also when the rollout has several samples, for which there is no room. */
  sample: singleSampleSchema.nullable(),
  err_message: z.string().nullable(),
  // Servers add categories; one that is not known here must not cost the result.
  err_category: leasedErrorCategorySchema.nullable().catch(null),
})
export type LeasedResultBody = z.infer<typeof leasedResultSchema>

/** Body of `POST /drain`. */
export const drainRequestSchema = z.object({
  /** How long the answer may wait for the rollouts that are in progress. Seconds, at most 300. */
  timeout_sec: z.number().min(0).max(300).default(30),
})
export type DrainRequestBody = z.infer<typeof drainRequestSchema>

/** Answer of `POST /drain`. */
export const drainResponseSchema = z.object({
  accepting_rollouts: z.boolean(),
  active_rollouts: z.int(),
  /** Whether nothing is in progress any more. */
  drained: z.boolean(),
  instance_id: z.string(),
  process_id: z.string(),
  /** Every rollout this process accepted, sorted. */
  rollout_ids: z.array(z.string()),
})
export type DrainResponseBody = z.infer<typeof drainResponseSchema>
