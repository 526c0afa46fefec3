import { isJsonObject } from '@osmosis/core/http'
import { z } from 'zod'

import { apiKeySchema } from './rollout-protocol.ts'

/**
 * HTTP bodies between a trainer and the server of a hand-written agent loop: the trainer sends
 * `POST /v1/rollout/init`; the loop sends `POST /v1/chat/completions` to the trainer, and
 * `POST /v1/rollout/completed` at its end. Unknown keys of requests are ignored.
 */

const longestRolloutId = 256
// White space as Python defines it, which JavaScript's `\s` is not.
// oxlint-disable-next-line no-control-regex
const blank = /^[\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$/

/** Peers in Python also send integers as `"7"`, `7.0` or `true`. */
const integer = z.union([
  z.int(),
  z
    .string()
    .regex(/^\s*[-+]?\d+(\.0*)?\s*$/, 'must be a whole number')
    .transform(Number),
  z.boolean().transform(Number),
])

const jsonObject = z.looseObject({})

/**
 * Messages that a trainer receives. Checked as one value: a body may hold millions of wrong ones, and
 * memory does not have room for as many issues.
 */
const receivedMessages = z.custom<Record<string, unknown>[]>(
  (value) => Array.isArray(value) && value.every(isJsonObject),
  'must be a list of objects',
)

/** Body of `POST /v1/rollout/init`. How large `metadata` may be is up to the server. */
export const loopInitRequestSchema = z.object({
  rollout_id: z
    .string()
    .refine((id) => !blank.test(id), 'rollout_id cannot be empty or whitespace only')
    .refine(
      (id) => id.length <= longestRolloutId || Array.from(id).length <= longestRolloutId,
      `rollout_id must have at most ${longestRolloutId} characters`,
    ),
  /** Base URL of the trainer; may have a path. */
  server_url: z
    .string()
    .refine(
      isTrainerUrl,
      'server_url must be an http or https URL without credentials, query and fragment',
    ),
  messages: z.array(jsonObject),
  completion_params: jsonObject,
  tool_server_url: z.string().nullish(),
  max_turns: integer.default(10),
  max_tokens_total: integer.default(8192),
  metadata: jsonObject.default({}),
  /** Bearer of the calls to the trainer. */
  api_key: apiKeySchema.nullish(),
  idempotency_key: z.string().nullish(),
})
/** A checked body, with defaults. */
export type LoopInitRequestBody = z.output<typeof loopInitRequestSchema>
/** A body as it is sent. */
export type LoopInitRequestInput = z.input<typeof loopInitRequestSchema>

/** A tool as it goes to the trainer, in OpenAI's function format. */
export interface FunctionTool {
  readonly type: string
  readonly function: {
    readonly name: string
    readonly description: string
    /** A JSON Schema. */
    readonly parameters: Readonly<Record<string, unknown>>
    readonly strict: boolean
    readonly [key: string]: unknown
  }
}

/** Answer of `POST /v1/rollout/init`. */
export const loopInitResponseSchema = z.object({
  rollout_id: z.string(),
  tools: z.array(
    z.looseObject({
      type: z.string(),
      function: z.looseObject({
        name: z.string(),
        description: z.string(),
        parameters: jsonObject,
        strict: z.boolean(),
      }),
    }),
  ),
})
/** The answer as it is sent. */
export interface LoopInitResponseBody {
  readonly rollout_id: string
  readonly tools: readonly FunctionTool[]
}

/**
 * Body of `POST /v1/chat/completions` as a loop sends it: a chat completions request with the id of its
 * rollout. All other keys are for the policy.
 */
export const loopChatRequestSchema = z.looseObject({
  rollout_id: z.string(),
  messages: receivedMessages,
  /** Asks the trainer to record the log probabilities of the answer. */
  logprobs: z.boolean().optional(),
})
export type LoopChatRequestBody = z.infer<typeof loopChatRequestSchema>

const metric = z.number().default(0)

/** What a rollout cost. A missing metric counts as 0. Latencies are milliseconds. */
const rolloutMetricsSchema = z.object({
  /** From acceptance to the end, including the time in the queue. */
  total_latency_ms: metric,
  /** Of the answered requests. */
  llm_latency_ms: metric,
  /** As given to `ctx.recordToolCall`. */
  tool_latency_ms: metric,
  num_llm_calls: metric,
  num_tool_calls: metric,
  prompt_tokens: metric,
  response_tokens: metric,
  /** Always 0; the protocol has the field. */
  max_context_tokens: metric,
})
export type RolloutMetrics = Readonly<z.output<typeof rolloutMetricsSchema>>

/** Body of `POST /v1/rollout/completed`: the one result of a rollout. */
export const loopCompletedSchema = z.object({
  rollout_id: z.string(),
  status: z.enum(['COMPLETED', 'ERROR']),
  /** The whole conversation, in chat completions form. */
  final_messages: receivedMessages,
  finish_reason: z.string().nullish(),
  error_message: z.string().nullish(),
  /** Null and absent: the trainer computes it. */
  reward: z.number().nullish(),
  metrics: rolloutMetricsSchema.prefault({}),
  extra_fields: jsonObject.default({}),
})
export type LoopCompletedBody = z.output<typeof loopCompletedSchema>

function isTrainerUrl(text: string): boolean {
  if (!/^https?:\/\/[^\s\\?#]+$/i.test(text) || !URL.canParse(text)) return false
  const { username, password, hostname } = new URL(text)
  return username === '' && password === '' && hostname !== ''
}
