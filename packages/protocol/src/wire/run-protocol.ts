import { z } from 'zod'

import { apiKeySchema, callReportSchema, rolloutRequestSchema } from './rollout-protocol.ts'

/**
 * HTTP bodies of requests that are answered with the result of a rollout: the trainer posts a row with
 * the URL of one of its sessions, and the request stays open until the rollout has ended.
 */

const jsonObject = z.record(z.string(), z.unknown())

/**
 * Body of `POST /run`. The keys that are named here belong to the protocol; all others are columns of
 * the row, which therefore cannot have these names.
 */
export const runRequestSchema = z.looseObject({
  /** Base URL of the policy, used by this rollout alone unless `trace` is true. */
  base_url: rolloutRequestSchema.shape.chat_completions_url,
  /** Model name in model calls, with or without the prefix `openai/`. */
  model: z.string().min(1, 'must name the model'),
  /** Bearer of the policy. Default: none is sent. */
  api_key: apiKeySchema.min(1, 'must be omitted or a non-empty string').nullish(),
  /** Settings of each model call, under their names in chat completions or in inference servers. */
  sampling_params: jsonObject.nullish(),
  /** Number of tokens that the trainer uses of a session. The trainer truncates; nothing is truncated here. */
  max_seq_len: z.number().positive().nullish(),
  /** The id that `POST /flush` selects by. With it, `base_url` is a session of this rollout alone. */
  session_server_instance_id: z.string().nullish(),
  /** Where the trainer finds the session again; not used here. */
  session_server_id: z.unknown().optional(),
  /** Settings for the trainer's own agents; not used here. */
  agent_kwargs: z.unknown().optional(),
  /** Whether the answer contains the training data, for policies that record nothing. */
  trace: z.boolean('must be true or false').nullish(),
})
export type RunRequestBody = z.infer<typeof runRequestSchema>

/** One answered model call, as training data. */
const runCallSchema = callReportSchema.extend({
  /** The whole prompt of the call; null where the policy gave no ids. */
  prompt_token_ids: z.array(z.number()).nullable(),
  /** The sampled tokens; null where the policy gave no ids. */
  completion_token_ids: z.array(z.number()).nullable(),
  /** One for each sampled token; null where the policy did not give that many. */
  logprobs: z.array(z.number()).nullable(),
  /**
   * Whether its prompt begins, token by token, with the prompt and the answer of the training data before it; otherwise a new row
   * starts here, unless the prompt extends that of an earlier call. True for the first call, null where ids are missing.
   */
  extends_previous: z.boolean().nullable(),
  finish_reason: z.string().nullable(),
  /** Why `trainable` is false, where the policy gave too little to train the answer. */
  untrainable_reason: z.string().optional(),
})
export type RunCallBody = z.infer<typeof runCallSchema>

/** One sample, as training data. */
const runSampleSchema = z.object({
  sample_id: z.string(),
  reward: z.number(),
  /** In the order in which they were made. */
  calls: z.array(runCallSchema),
})
export type RunSampleBody = z.infer<typeof runSampleSchema>

/** Answer of `POST /run`, for every outcome. */
export const runResponseSchema = z.object({
  /** Only with `completed`: a failure cannot be expressed as a number. */
  reward: z.number().optional(),
  exit_status: z.enum(['completed', 'removed', 'failed', 'cancelled']),
  eval_report: z.object({
    err_message: z.string().optional(),
    err_category: z.string().optional(),
  }),
  agent_metrics: z.object({
    /** From the request to the answer. Seconds. */
    total_time: z.number(),
  }),
  /** If the request set `trace`, and only with `completed`: the samples that stay in training. */
  trace: z.array(runSampleSchema).optional(),
})
export type RunResponseBody = z.infer<typeof runResponseSchema>

/** Body of `POST /flush`. */
export const flushRequestSchema = z.object({
  session_server_instance_id: z.string().min(1, 'must name the instance'),
})
export type FlushRequestBody = z.infer<typeof flushRequestSchema>

/** Answer of `POST /flush`. */
export const flushResponseSchema = z.object({
  /** How many rollouts of the instance were cancelled. */
  flushed: z.int(),
})
export type FlushResponseBody = z.infer<typeof flushResponseSchema>
