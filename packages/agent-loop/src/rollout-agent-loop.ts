import type { PromptMessage } from '@osmosis/core'
import type { FunctionTool } from '@osmosis/protocol/wire'

import type { ChatResult } from './chat/chat-result.ts'
import type { RolloutResult } from './rollout-result.ts'
import type { ToolInput } from './tools/function-tool.ts'

const brand = Symbol.for('osmosis.agent_loop')

/** A hand-written agent. Users extend it and export one instance. */
export abstract class RolloutAgentLoop {
  static readonly [brand] = true
  readonly [brand] = true
  /** Identifies the agent in health answers and logs. Not empty. */
  abstract readonly name: string

  /**
   * The tools of a rollout. Called once per rollout, before it is accepted; the trainer adds them
   * to every model call.
   */
  abstract getTools(request: RolloutRequest): readonly ToolInput[] | Promise<readonly ToolInput[]>

  /** Runs the agent and resolves with the value of `ctx.complete` or `ctx.error`. */
  abstract run(ctx: RolloutContext): Promise<RolloutResult>
}

/** True for an instance of {@link RolloutAgentLoop} of any installed copy. */
export function isRolloutAgentLoop(value: unknown): value is RolloutAgentLoop {
  return typeof value === 'object' && value !== null && brand in value
}

/** True for a class that extends {@link RolloutAgentLoop} of any installed copy, and implements `run`. */
export function isRolloutAgentLoopClass(value: unknown): value is new () => RolloutAgentLoop {
  return (
    typeof value === 'function' &&
    brand in value &&
    typeof (value.prototype as { run?: unknown } | undefined)?.run === 'function'
  )
}

/**
 * Parameters of a model call, by their names on the wire. The `completion_params` of the trainer can be
 * passed to `ctx.chat` unchanged, or with some values changed.
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
  /** Other parameters do not exist in the protocol: they are omitted, with one warning in the log. */
  [name: string]: unknown
}

/** A rollout that the trainer requested. */
export interface RolloutRequest {
  readonly rolloutId: string
  /** Base URL of the trainer, as received. */
  readonly serverUrl: string
  /** The conversation to start from, in chat completions form. */
  readonly messages: readonly PromptMessage[]
  readonly completionParams: Readonly<CompletionParams>
  readonly toolServerUrl: string | null
  /** Maximum number of policy answers; the loop has to respect it. */
  readonly maxTurns: number
  /** Maximum number of completion tokens of the whole rollout; the loop has to respect it. */
  readonly maxTokensTotal: number
  /** Data of the row, e.g. `ground_truth`. A number beyond 2^53 is text, so that it keeps its digits. */
  readonly metadata: Readonly<Record<string, unknown>>
  /** Requests with the same key are one rollout; null: the `rolloutId` is the key. */
  readonly idempotencyKey: string | null
}

/** The argument of `run`. */
export interface RolloutContext {
  readonly request: RolloutRequest
  /** The result of `getTools` for this rollout, in wire form. */
  readonly tools: readonly FunctionTool[]
  /** Aborts when the server ends the rollout; pass it to everything that waits. */
  readonly signal: AbortSignal
  /** Whether `logEvent` writes a trace. */
  readonly debugEnabled: boolean

  /**
   * Calls the policy. Each call repeats the conversation so far and only appends to it. Failures
   * before an answer has started are retried, as the client settings say.
   *
   * @param messages - the conversation, in chat completions form
   * @param params - `ctx.request.completionParams`, or others with the same names
   * @throws OsmosisTimeoutError, OsmosisTransportError, OsmosisServerError,
   * OsmosisValidationError; the reason of `signal` or of the rollout's own signal when aborted
   */
  chat(
    messages: readonly PromptMessage[],
    params?: Readonly<CompletionParams>,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<ChatResult>

  /**
   * The result of a rollout that is complete.
   *
   * @param options - `finishReason` defaults to `stop`, `reward` to null: the platform computes it
   * @throws OsmosisError with code `invalid_reward` for NaN and infinities, `protocol_error` when
   * a message is not an object
   */
  complete(
    finalMessages: readonly object[],
    options?: {
      readonly finishReason?: string | null | undefined
      readonly reward?: number | null | undefined
    },
  ): RolloutResult

  /**
   * The result of a rollout that failed. Throwing in `run` has the same effect, and the result then has the
   * conversation of the latest model call.
   *
   * @param options - `finalMessages` defaults to none
   */
  error(
    message: string,
    options?: { readonly finalMessages?: readonly object[] | undefined },
  ): RolloutResult

  /** Counts a tool call. `latencyMs` is in milliseconds, 0 by default. */
  recordToolCall(options?: { readonly latencyMs?: number | undefined }): void

  /**
   * Writes one line to the trace of this rollout, if traces are enabled. Never throws; values without a
   * JSON form are omitted.
   */
  logEvent(event: string, data?: Readonly<Record<string, unknown>>): void
}
