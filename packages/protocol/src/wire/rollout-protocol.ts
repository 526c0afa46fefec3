import { isPathSegment } from '@osmosis/core'
import { z } from 'zod'

/**
 * HTTP bodies between a training cluster (the controller) and a rollout server. Unknown keys of received
 * bodies are ignored; sent bodies have every key, nulls included.
 */

/** An id that is safe in headers, URLs and file names. */
export const rolloutIdSchema: z.ZodType<string> = z
  .string()
  .refine(isPathSegment, 'must be a single path segment of printable ASCII, at most 256 characters')

const httpUrl = z
  .string()
  .refine(isPlainHttpUrl, 'must be an http or https URL without credentials')

/** A key that is sent in a header. Most servers limit all headers together to this size. */
export const apiKeySchema: z.ZodString = z
  .string()
  .max(16_384, 'must have at most 16384 characters: it is sent in a header')

const jsonObject = z.record(z.string(), z.unknown())

// JSON has no infinities, but `1e999` parses to one. Some callers write numbers as text.
const timeoutSeconds = z.preprocess(
  fromNumeral,
  z
    .number('must be finite; omit it to run unbounded')
    .refine(Number.isFinite, 'must be finite; omit it to run unbounded'),
)

const errorCategory = z.enum(['timeout', 'validation_error', 'http_error', 'agent_error'])

/**
 * What lost a rollout that may run again under another id, in `extra_fields.lost_with` of callbacks. A key
 * of this SDK: other controllers ignore it.
 */
export const rolloutLossSchema = z.enum(['worker_lost', 'server_shutdown', 'queue_unavailable'])
export type RolloutLoss = z.infer<typeof rolloutLossSchema>

/**
 * The extra field of a rollout's first sample that has what `run()` of its workflow returned, when that is JSON data. A key of
 * this SDK: other controllers ignore it.
 */
export const runOutputField = 'run_output'

const terminalStatus = z.enum(['success', 'failure'])

/** The group that a rollout is an attempt of. A key of this SDK: other servers ignore it. */
const rolloutGroup = z.object({
  id: z.string().min(1, 'must not be empty').max(1000),
  /** From 1. */
  attempt: z.int().min(1).max(100_000),
  /** How many attempts there are. */
  size: z.int().min(1).max(100_000).nullish(),
})

/** Body of `POST /rollout`. */
export const rolloutRequestSchema = z.object({
  rollout_id: rolloutIdSchema.nullish(),
  initial_messages: z.array(jsonObject),
  label: z.string().nullish(),
  metadata: jsonObject.nullish(),
  /** Base URL; `/chat/completions` is appended. */
  chat_completions_url: httpUrl,
  /** Bearer of the callbacks, and of the policy when `llm_api_key` is absent. */
  controller_api_key: apiKeySchema.nullish(),
  llm_api_key: apiKeySchema
    .min(1, 'must be omitted or a non-empty string; an empty string is not a fallback')
    .nullish(),
  completion_callback_url: httpUrl,
  /** Absent or empty: the rollout is not graded. */
  grader_callback_url: z
    .preprocess((url) => (url === '' ? null : url), httpUrl.nullable())
    .nullish(),
  /** Seconds; zero or less is already expired, null is unbounded. */
  agent_timeout_sec: timeoutSeconds.nullish(),
  grader_timeout_sec: timeoutSeconds.nullish(),
  extra_fields: jsonObject.nullish(),
  group: rolloutGroup.nullish(),
})
export type RolloutRequestBody = z.infer<typeof rolloutRequestSchema>

/** Body of the callback that says how the workflow ended. */
export const completionCallbackSchema = z.object({
  rollout_id: z.string().nullish(),
  status: z.enum(['success', 'failure', 'cancelled']),
  extra_fields: jsonObject.nullish(),
  err_message: z.string().nullish(),
  err_category: errorCategory.nullish(),
})
export type CompletionCallbackBody = z.infer<typeof completionCallbackSchema>

/** The only sample of a rollout, in results that carry one. */
export const singleSampleSchema = z.object({
  messages: z.array(z.unknown()),
  label: z.string().nullish(),
  /** Null unless the sample stays in training and was graded successfully. */
  reward: z.number().nullish(),
  remove_sample: z.boolean().default(false),
  metrics: jsonObject.default({}),
  extra_fields: jsonObject.default({}),
})

/** A sample inside the grader callback. */
const sampleSchema = singleSampleSchema.extend({ id: z.string() })
export type SampleBody = z.infer<typeof sampleSchema>

/** What is known of one answered model call. */
export const callReportSchema = z.object({
  /** Id of the response; null where the policy gave none. */
  id: z.string().nullable(),
  /** Version of the policy's weights: `weight_version`, or `policy-7` as the model's name; null when unknown. */
  version: z.string().nullable(),
  /** What the call is for: `agent`, `title`, `summary`, `judge`, or another word of the workflow. */
  purpose: z.string(),
  /** False: the answer is not training data. */
  trainable: z.boolean(),
  /**
   * Settings of the call that decide how its answer is sampled, under their names in chat completions. What is missing was the
   * server's default, which may be any: a missing `temperature` is unknown, not 1. `constraints` lists the fields that hold the
   * answer to a form: where the server masks tokens for them, its logprobs are of another distribution.
   */
  sampling: jsonObject,
  /** Reward of this call alone; null where the grader gave none. */
  step_reward: z.number().nullable(),
})
export type CallReportBody = z.infer<typeof callReportSchema>

/**
 * The answered model calls of each sample, by its id and in the order in which they were made, in
 * `extra_fields.calls` of the grader callback. A key of this SDK: other controllers ignore it.
 */
export const callReportsSchema = z.record(z.string(), z.array(callReportSchema))

/** Body of the callback that carries the rewards. */
export const graderCallbackSchema = z.object({
  rollout_id: z.string().nullish(),
  status: terminalStatus,
  /** By sample id. */
  samples: z.record(z.string(), sampleSchema).default({}),
  /** The only sample, for controllers that expect exactly one. */
  sample: singleSampleSchema.nullish(),
  /** A key of this SDK, see {@link rolloutLossSchema} and {@link callReportsSchema}: other controllers ignore it. */
  extra_fields: jsonObject.nullish(),
  err_message: z.string().nullish(),
  err_category: errorCategory.nullish(),
})
export type GraderCallbackBody = z.infer<typeof graderCallbackSchema>

/** The current phase of a rollout, or how it ended. */
export const rolloutStatusSchema = z.enum([
  'queued',
  'running',
  'grading',
  'success',
  'failure',
  'cancelled',
  'unknown',
])
export type RolloutStatus = z.infer<typeof rolloutStatusSchema>

/** Answer of `GET /rollout/{id}/status`. */
export const statusResponseSchema = z.object({
  rollout_id: z.string(),
  status: rolloutStatusSchema,
  reward: z.number().nullable(),
  err_message: z.string().nullable(),
})
export type StatusResponseBody = z.infer<typeof statusResponseSchema>

const oneSelector = 'pass exactly one selector: ids, prefix, or all'

/** Body of `POST /rollout/cancel`. */
export const cancelRequestSchema = z
  .object({
    ids: z.array(z.string()).nullish(),
    // An empty prefix would select every rollout by accident; `all` says it on purpose.
    prefix: z.string().min(1, 'must not be empty; use all to cancel everything').nullish(),
    all: z.boolean().nullish(),
  })
  .refine(
    ({ ids, prefix, all }) =>
      [ids !== undefined && ids !== null, typeof prefix === 'string', all === true].filter(Boolean)
        .length === 1,
    oneSelector,
  )
export type CancelRequestBody = z.infer<typeof cancelRequestSchema>

/** The result of cancelling one rollout. */
const cancelDispositionSchema = z.enum(['cancelled_queued', 'cancelled_running', 'not_found'])
export type CancelDisposition = z.infer<typeof cancelDispositionSchema>

/** Answer of `POST /rollout/cancel`. */
export const cancelResponseSchema = z.object({
  dispositions: z.record(z.string(), cancelDispositionSchema),
})

/** Answer of `GET /health`. */
export const healthResponseSchema = z.object({
  status: z.literal('ok'),
  concurrency: z.object({
    /** Null: unlimited. */
    max_concurrent: z.number().int().nullable(),
    queued: z.number().int(),
    running: z.number().int(),
  }),
  /** Pending callbacks, without those that a controller has refused. */
  undelivered: z.number().int(),
  /** Ended rollouts whose results can still be fetched. */
  retained_results: z.int().optional(),
  /** Name of the instance, or its `process_id`. */
  instance_id: z.string().optional(),
  /** Differs after each start. */
  process_id: z.string().optional(),
  lifecycle: z
    .object({
      accepting_rollouts: z.boolean(),
      /** Includes rollouts whose results are still being published or delivered. */
      active_rollouts: z.int(),
    })
    .optional(),
})
export type HealthResponseBody = z.infer<typeof healthResponseSchema>

/** Body of `POST /drain`. */
export const drainRequestSchema = z.object({
  /** How long the answer may wait for rollouts in progress. Seconds, at most 300. */
  timeout_sec: z.number().min(0).max(300).default(30),
})
export type DrainRequestBody = z.infer<typeof drainRequestSchema>

/** Answer of `POST /drain`. */
export const drainResponseSchema = z.object({
  accepting_rollouts: z.boolean(),
  active_rollouts: z.int(),
  /** Whether all rollouts have ended. */
  drained: z.boolean(),
  instance_id: z.string(),
  process_id: z.string(),
  /** All rollouts that this process accepted, sorted. */
  rollout_ids: z.array(z.string()),
})
export type DrainResponseBody = z.infer<typeof drainResponseSchema>

function fromNumeral(value: unknown): unknown {
  const isNumeral =
    typeof value === 'string' && /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(value)
  return isNumeral ? Number(value) : value
}

function isPlainHttpUrl(value: string): boolean {
  const url = URL.parse(value)
  if (url === null) return false
  const { protocol, username, password } = url
  return (protocol === 'http:' || protocol === 'https:') && username === '' && password === ''
}
