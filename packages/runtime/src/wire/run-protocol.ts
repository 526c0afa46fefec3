import { z } from 'zod'

import { apiKeySchema, rolloutRequestSchema } from './rollout-protocol.ts'

/**
 * HTTP bodies of rollouts whose answer is their result: the trainer posts a row with the URL of a
 * session of its own, and the request stays open until the rollout has ended.
 */

const jsonObject = z.record(z.string(), z.unknown())

/**
 * Body of `POST /run`. The keys that are named here are the protocol's own; all others are the row's,
 * so that a row cannot have a column of such a name.
 */
export const runRequestSchema = z.looseObject({
  /** Base URL of the policy, the rollout's own unless `trace` is asked for. */
  base_url: rolloutRequestSchema.shape.chat_completions_url,
  /** The name that the policy is asked under, with or without `openai/` in front of it. */
  model: z.string().min(1, 'must name the model'),
  /** Bearer of the policy. Default: none is sent. */
  api_key: apiKeySchema.min(1, 'must be omitted or a non-empty string').nullish(),
  /** Settings of each model call: those of chat completions, or the names that inference servers have. */
  sampling_params: jsonObject.nullish(),
  /** Tokens that the trainer keeps of a session. It cuts what it recorded; nothing is cut here. */
  max_seq_len: z.number().positive().nullish(),
  /** What `POST /flush` names. The `base_url` beside it is a session that is for one rollout alone. */
  session_server_instance_id: z.string().nullish(),
  /** Where the trainer finds the session again; not used here. */
  session_server_id: z.unknown().optional(),
  /** Settings for agents of the trainer's own; not used here. */
  agent_kwargs: z.unknown().optional(),
  /** Whether the answer has what is to be trained, for policies that record nothing. */
  trace: z.boolean('must be true or false').nullish(),
})
export type RunRequestBody = z.infer<typeof runRequestSchema>

/** One answered model call, as it is trained. */
export const runCallSchema = z.object({
  /** Id of the response; null where the policy gave none. */
  id: z.string().nullable(),
  /** The whole prompt of the call; null where the policy gave no ids. */
  prompt_token_ids: z.array(z.number()).nullable(),
  /** What was sampled; null where the policy gave no ids. */
  completion_token_ids: z.array(z.number()).nullable(),
  /** One for each token that was sampled; null where the policy gave none. */
  logprobs: z.array(z.number()).nullable(),
  /** Whether the call continued from the ones before it, or is the first; otherwise a row ends there. */
  extends_previous: z.boolean(),
  finish_reason: z.string().nullable(),
  /** Reward of this call alone; null where the grader gave none. */
  step_reward: z.number().nullable(),
})
export type RunCallBody = z.infer<typeof runCallSchema>

/** What is to be trained of one sample. */
export const runSampleSchema = z.object({
  sample_id: z.string(),
  reward: z.number(),
  /** In the order in which they were made. */
  calls: z.array(runCallSchema),
})
export type RunSampleBody = z.infer<typeof runSampleSchema>

/** Answer of `POST /run`, whatever became of the rollout. */
export const runResponseSchema = z.object({
  /** Only with `completed`: there is no number that means a failure. */
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
  /** Where `trace` was asked for, and only with `completed`: the kept samples. */
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
