import { z } from 'zod'

import {
  rolloutIdSchema,
  rolloutRequestSchema,
  rolloutStatusSchema,
  singleSampleSchema,
} from './rollout-protocol.ts'

/**
 * HTTP bodies of rollouts whose results are fetched instead of sent in callbacks: the caller holds a
 * lease and renews it with each request for the result. Cancelling and health are as for other rollouts.
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
  /** Whether the caller wants rewards. */
  grade: z.boolean().default(true),
  /** Seconds; zero or less is already expired, null is unbounded. */
  agent_timeout_sec: shape.agent_timeout_sec,
  grader_timeout_sec: shape.grader_timeout_sec,
  extra_fields: shape.extra_fields,
  group: shape.group,
})
export type LeasedRolloutRequestBody = z.infer<typeof leasedRolloutRequestSchema>
/** A body as a caller sends it. */
export type LeasedRolloutRequestInput = z.input<typeof leasedRolloutRequestSchema>

/** Answer of `POST /rollout`, with status 202, to a body without a `completion_callback_url`. */
export const leasedRolloutAcceptedSchema = z.object({
  rollout_id: z.string(),
  status: z.literal('queued'),
  polling_lease_token: z.string().min(1),
  /** Longest time that a request for the result waits for a change of the status. Seconds. */
  result_wait_timeout_sec: z.number().positive(),
  /** The rollout ends when its result was not requested during this time. Seconds. */
  polling_lease_timeout_sec: z.number().positive(),
})
export type LeasedRolloutAcceptedBody = z.infer<typeof leasedRolloutAcceptedSchema>

/**
 * Why a leased rollout failed. `lease_expired`: its result was not requested in time; `internal_error`: the
 * server failed, not the rollout.
 */
export const leasedErrorCategorySchema = z.enum([
  'timeout',
  'validation_error',
  'http_error',
  'agent_error',
  'lease_expired',
  'internal_error',
])
export type LeasedErrorCategory = z.infer<typeof leasedErrorCategorySchema>

/** Answer of `GET /rollout/{id}/result`: until the rollout has ended, everything but its status is null. */
export const leasedResultSchema = z.object({
  rollout_id: z.string(),
  status: rolloutStatusSchema,
  /** Null as well when the rollout has several samples, which the protocol cannot carry. */
  sample: singleSampleSchema.nullable(),
  err_message: z.string().nullable(),
  // Other servers may add categories; an unknown one must not lose the result.
  err_category: leasedErrorCategorySchema.nullable().catch(null),
})
export type LeasedResultBody = z.infer<typeof leasedResultSchema>
