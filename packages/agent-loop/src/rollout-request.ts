import type { PromptMessage } from '@osmosis/core'

/**
 * Parameters of a model call, by their names on the wire. What the trainer sends in
 * `completion_params` can be passed to `ctx.chat` as it is, also with some of it changed.
 */
export interface CompletionParams {
  /** Default: 1. */
  temperature?: number | undefined
  /** Default: 1. */
  top_p?: number | undefined
  /** Default: 512. */
  max_tokens?: number | undefined
  /** Default: none. */
  stop?: string | readonly string[] | null | undefined
  /** Default: true. */
  logprobs?: boolean | undefined
  /** Default: `default`. */
  model?: string | undefined
  /** The protocol knows no other parameters: they are left out, with one warning in the log. */
  [name: string]: unknown
}

/** A rollout that the trainer asked for. */
export interface RolloutRequest {
  readonly rolloutId: string
  /** Base URL of the trainer, as it was given. */
  readonly serverUrl: string
  /** The conversation to start from, in chat completions form. */
  readonly messages: readonly PromptMessage[]
  readonly completionParams: Readonly<CompletionParams>
  readonly toolServerUrl: string | null
  /** Most answers of the policy; the loop keeps to it. */
  readonly maxTurns: number
  /** Most completion tokens of the whole rollout; the loop keeps to it. */
  readonly maxTokensTotal: number
  /** Whatever the row carries, e.g. `ground_truth`. */
  readonly metadata: Readonly<Record<string, unknown>>
  /** Makes requests with the same key one rollout; null: the `rolloutId` does. */
  readonly idempotencyKey: string | null
}
