import type { PromptMessage } from '@osmosis/core'
import type { FunctionTool } from '@osmosis/runtime/wire'

import type { ChatResult } from './chat/chat-result.ts'
import type { CompletionParams, RolloutRequest } from './rollout-request.ts'
import type { RolloutResult } from './rollout-result.ts'

/** What `run` works with. */
export interface RolloutContext {
  readonly request: RolloutRequest
  /** What `getTools` returned for this rollout, in wire form. */
  readonly tools: readonly FunctionTool[]
  /** Aborts when the server ends the rollout; pass it to whatever waits. */
  readonly signal: AbortSignal
  /** Whether `logEvent` writes anything. */
  readonly debugEnabled: boolean

  /**
   * Asks the policy. Each call repeats the conversation so far and only adds to it. What fails
   * before an answer has started is tried again, as the client settings say.
   *
   * @param messages - the conversation, in chat completions form
   * @param params - `ctx.request.completionParams`, or others by the same names
   * @throws OsmosisTimeoutError, OsmosisTransportError, OsmosisServerError,
   * OsmosisValidationError; the reason of `signal` or of the rollout's own signal when aborted
   */
  chat(
    messages: readonly PromptMessage[],
    params?: Readonly<CompletionParams>,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<ChatResult>

  /**
   * The result of a rollout that came to its end.
   *
   * @param options - `finishReason` defaults to `stop`, `reward` to null: computed elsewhere
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
   * The result of a rollout that failed. Throwing in `run` has the same effect, and keeps the
   * conversation of the latest model call.
   *
   * @param options - `finalMessages` defaults to none
   */
  error(
    message: string,
    options?: { readonly finalMessages?: readonly object[] | undefined },
  ): RolloutResult

  /** Counts a tool call. `latencyMs` are milliseconds, 0 by default. */
  recordToolCall(options?: { readonly latencyMs?: number | undefined }): void

  /**
   * Writes one line to the trace of this rollout, when traces are kept. Never throws; what has no
   * JSON form is left out.
   */
  logEvent(event: string, data?: Readonly<Record<string, unknown>>): void
}
