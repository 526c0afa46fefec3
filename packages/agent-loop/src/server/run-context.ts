import type { PromptMessage } from '@osmosis/core'
import type { FunctionTool } from '@osmosis/runtime/wire'

import type { ChatClient } from '../chat/chat-client.ts'
import { unknownParameters } from '../chat/chat-parameters.ts'
import type { ChatResult } from '../chat/chat-result.ts'
import type { RolloutContext } from '../rollout-context.ts'
import type { MetricsCounter } from '../rollout-metrics.ts'
import type { CompletionParams, RolloutRequest } from '../rollout-request.ts'
import { assertMessages, assertReward, type RolloutResult } from '../rollout-result.ts'
import type { EventTrace } from './event-trace.ts'

/** What the context of one running rollout stands on. */
export interface RunContextParts {
  readonly request: RolloutRequest
  readonly tools: readonly FunctionTool[]
  readonly signal: AbortSignal
  readonly client: ChatClient
  readonly metrics: MetricsCounter
  /** Null: no traces are kept. */
  readonly trace: EventTrace | null
  /** Called with the names of parameters that are left out. */
  readonly onUnknownParameters: (names: readonly string[]) => void
}

/** The context that `run` gets from the server. */
export class RunContext implements RolloutContext {
  readonly request: RolloutRequest
  readonly tools: readonly FunctionTool[]
  readonly signal: AbortSignal
  readonly debugEnabled: boolean
  readonly #parts: RunContextParts

  constructor(parts: RunContextParts) {
    this.request = parts.request
    this.tools = parts.tools
    this.signal = parts.signal
    this.debugEnabled = parts.trace !== null
    this.#parts = parts
  }

  async chat(
    messages: readonly PromptMessage[],
    params: Readonly<CompletionParams> = {},
    options: Parameters<RolloutContext['chat']>[2] = {},
  ): Promise<ChatResult> {
    const unknown = unknownParameters(params)
    if (unknown.length > 0) this.#parts.onUnknownParameters(unknown)
    return this.#parts.client.chat(messages, params, options.signal)
  }

  complete(
    finalMessages: readonly object[],
    options: Parameters<RolloutContext['complete']>[1] = {},
  ): RolloutResult {
    const { finishReason = 'stop', reward = null } = options
    assertMessages(finalMessages)
    assertReward(reward)
    return { status: 'COMPLETED', finalMessages, finishReason, errorMessage: null, reward }
  }

  error(
    message: string,
    { finalMessages = [] }: Parameters<RolloutContext['error']>[1] = {},
  ): RolloutResult {
    assertMessages(finalMessages)
    return {
      status: 'ERROR',
      finalMessages,
      finishReason: 'error',
      errorMessage: message,
      reward: null,
    }
  }

  recordToolCall({ latencyMs = 0 }: Parameters<RolloutContext['recordToolCall']>[0] = {}): void {
    this.#parts.metrics.toolCall(Number.isFinite(latencyMs) ? latencyMs : 0)
  }

  logEvent(event: string, data: Readonly<Record<string, unknown>> = {}): void {
    this.#parts.trace?.log(event, data)
  }
}
