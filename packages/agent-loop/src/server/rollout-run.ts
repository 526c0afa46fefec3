import { errorCategory, errorMessage, OsmosisError, type PromptMessage } from '@osmosis/core'
import { startTimer, type EgressPolicy, type TraceHeaders } from '@osmosis/core/http'
import { beginRolloutTrace, type RolloutTrace } from '@osmosis/core/tracing'
import { type ConcurrencyLimiter, thrownBy, UserCode } from '@osmosis/server/execution'
import type { RolloutFailure } from '@osmosis/protocol'
import type {
  RolloutStatus,
  FunctionTool,
  LoopCompletedBody,
  RolloutMetrics,
} from '@osmosis/protocol/wire'
import type { Logger } from '@osmosis/server'
import type { Callback, OwnershipLog, SecretValues, ServerMetrics } from '@osmosis/server/protocols'

import { ChatClient } from '../chat/chat-client.ts'
import { unknownParameters } from '../chat/chat-parameters.ts'
import type { ChatResult } from '../chat/chat-result.ts'
import { MessageTexts } from '../chat/message-texts.ts'
import { headerSafe, trainerUrl } from '../chat/trainer-transport.ts'
import type {
  RolloutAgentLoop,
  RolloutContext,
  RolloutRequest,
  CompletionParams,
} from '../rollout-agent-loop.ts'
import { MetricsCounter } from './rollout-metrics.ts'
import {
  checkedResult,
  type RolloutResult,
  assertMessages,
  assertReward,
} from '../rollout-result.ts'
import type { RolloutSettings } from '../rollout-settings.ts'
import { EventTrace, type TraceFolder } from './event-trace.ts'

/** What {@link RunContext} works with. */
interface RunContextParts {
  readonly request: RolloutRequest
  readonly tools: readonly FunctionTool[]
  readonly signal: AbortSignal
  readonly client: ChatClient
  readonly metrics: MetricsCounter
  /** Null: traces are off. */
  readonly trace: EventTrace | null
  /** Called with the names of parameters that are omitted. */
  readonly onUnknownParameters: (names: readonly string[]) => void
}

/** The context that the server passes to `run`. */
class RunContext implements RolloutContext {
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

/** Shared by all runs of one app. */
export interface RunServices {
  readonly loop: RolloutAgentLoop
  readonly settings: RolloutSettings
  readonly limiter: ConcurrencyLimiter
  /** Allowed receivers of model calls. */
  readonly egress: EgressPolicy
  readonly secrets: SecretValues
  readonly logger: Logger
  readonly metrics: ServerMetrics
  /** Null: traces are off. */
  readonly traces: TraceFolder | null
  readonly onUnknownParameters: (names: readonly string[]) => void
  /** Undefined: the ownership of rollouts is not reported. */
  readonly ownership: OwnershipLog | undefined
}

/** An accepted rollout. */
export interface AcceptedRollout {
  readonly request: RolloutRequest
  readonly tools: readonly FunctionTool[]
  /** Bearer key for all requests to the trainer. */
  readonly apiKey: string | null
  /** The trace that the request belongs to. */
  readonly traceHeaders: TraceHeaders
}

/** One rollout, from its acceptance to the body of its `completed` call, which is built once. */
export class RolloutRun {
  readonly #services: RunServices
  readonly #rollout: AcceptedRollout
  readonly #code: UserCode
  readonly #metrics = new MetricsCounter()
  readonly #clock: ReturnType<ServerMetrics['rollouts']['begin']>
  readonly #texts = new MessageTexts()
  readonly #client: ChatClient
  readonly #events: EventTrace | null
  /** Undefined when tracing is off. */
  readonly #trace: RolloutTrace | undefined
  readonly #report: (status: RolloutStatus) => void

  constructor(services: RunServices, rollout: AcceptedRollout) {
    const { apiKey, traceHeaders, request } = rollout
    const { rolloutId, serverUrl } = request
    this.#services = services
    this.#rollout = rollout
    this.#code = new UserCode({ rolloutId, part: 'agent loop' })
    this.#clock = services.metrics.rollouts.begin()
    this.#report = services.ownership?.begin(request) ?? (() => undefined)
    this.#report('queued')
    this.#events = services.traces && new EventTrace(services.traces, rolloutId)
    const traced = { rolloutId, apiKey: apiKey ?? undefined, traceHeaders }
    this.#trace = beginRolloutTrace(traced, services.loop.name)
    this.#client = new ChatClient({
      rolloutId,
      serverUrl,
      apiKey,
      settings: services.settings.client,
      egress: services.egress,
      signal: this.#code.signal,
      metrics: this.#metrics,
      onCall: (call) => services.metrics.policy.count(call),
      texts: this.#texts,
      trace: this.#trace,
    })
  }

  /** Runs `fn` in the span of the rollout. */
  inTrace<T>(fn: () => T): T {
    return this.#trace === undefined ? fn() : this.#trace.run(fn)
  }

  /** Ends the rollout early; `reason` is reported to the trainer. */
  abort(reason: OsmosisError): void {
    this.#code.abort(reason)
  }

  /** Runs the loop and resolves with its one callback. Never rejects. */
  async finish(): Promise<Callback> {
    const body = await this.#body()
    // Aborts calls that the loop did not wait for: their answers would be lost.
    this.abort(new OsmosisError('rollout_ended', 'the rollout has ended'))
    this.#trace?.end()
    await this.#events?.flushed()
    return toCallback(this.#rollout, body)
  }

  async #body(): Promise<string> {
    const { rolloutId } = this.#rollout.request
    const { logger, secrets, loop } = this.#services
    let hasRun = false
    try {
      const { errorMessage: text, ...result } = await this.#run()
      hasRun = true
      const shown = text === null ? null : secrets.redactError(text)
      const metrics = this.#metrics.snapshot()
      const parts = { rolloutId, metrics, texts: this.#texts }
      const body = completedBody({ ...result, errorMessage: shown }, parts)
      if (result.reward !== null) this.#trace?.rewardedItself(loop.name, result.reward)
      const failed = result.status === 'ERROR'
      if (failed) this.#trace?.fail(shown ?? '', loopFailure.category)
      this.#end(failed ? loopFailure : null)
      return body
    } catch (error) {
      this.#trace?.fail(error)
      this.#end({ category: errorCategory(error), cause: error })
      const why = hasRun ? errorMessage(error) : thrownBy('run()', error)
      const message = secrets.redactError(why)
      logger.warn({ rollout_id: rolloutId, error }, `rollout failed: ${message}`)
      const metrics = this.#metrics.snapshot()
      return failedBody(message, this.#client.conversationJson, { rolloutId, metrics })
    }
  }

  #end(failure: Pick<RolloutFailure, 'category' | 'cause'> | null): void {
    const outcome = this.#clock.end(failure)
    if (outcome !== undefined) this.#report(outcome)
  }

  async #run(): Promise<RolloutResult> {
    const { loop, limiter, settings, onUnknownParameters } = this.#services
    const { signal } = this.#code
    const release = await limiter.acquire(signal)
    this.#clock.enter('workflow')
    this.#report('running')
    const { requestTimeoutSeconds } = settings.server
    const timer = startTimer((requestTimeoutSeconds ?? Infinity) * 1000, () => {
      const message = `the rollout took longer than ${requestTimeoutSeconds} s`
      this.abort(new OsmosisError('timeout', message))
    })
    try {
      const context = new RunContext({
        request: this.#rollout.request,
        tools: this.#rollout.tools,
        signal,
        client: this.#client,
        metrics: this.#metrics,
        trace: this.#events,
        onUnknownParameters,
      })
      return checkedResult(await this.#code.run(async () => loop.run(context)))
    } finally {
      timer.clear()
      release()
    }
  }
}

/** The loop itself reported that it failed. */
const loopFailure = { category: 'agent_error', cause: undefined } as const

/** The callback for a rollout whose server exited before it ended. */
export function interruptedCallback(
  rollout: Pick<AcceptedRollout, 'request' | 'apiKey'>,
): Callback {
  const { rolloutId } = rollout.request
  const message =
    'the rollout server restarted while the rollout was running; run it again under a new id'
  const metrics = new MetricsCounter().snapshot()
  return toCallback(rollout, failedBody(message, '[]', { rolloutId, metrics }))
}

function toCallback(
  { request, apiKey }: Pick<AcceptedRollout, 'request' | 'apiKey'>,
  body: string,
): Callback {
  const { rolloutId, serverUrl } = request
  return {
    rolloutId,
    kind: 'completed',
    url: trainerUrl(serverUrl, '/v1/rollout/completed'),
    apiKey,
    idempotencyKey: `${headerSafe(rolloutId)}/completed`,
    body,
  }
}

/** What a `completed` call contains besides the result. */
interface CompletedParts {
  readonly rolloutId: string
  readonly metrics: RolloutMetrics
  readonly texts: MessageTexts
}

/**
 * The body of the one `completed` call of a rollout.
 *
 * @throws TypeError when a message has no JSON form
 */
function completedBody(result: RolloutResult, parts: CompletedParts): string {
  const messages = result.finalMessages.map((message) => parts.texts.of(message))
  return encode(`[${messages.join(',')}]`, result, parts)
}

/** The body for a failed rollout, with the conversation so far. */
function failedBody(
  message: string,
  conversationJson: string,
  parts: Omit<CompletedParts, 'texts'>,
): string {
  const failure = {
    status: 'ERROR',
    finishReason: 'error',
    errorMessage: message,
    reward: null,
  } as const
  return encode(conversationJson, failure, parts)
}

function encode(
  messagesJson: string,
  { status, finishReason, errorMessage: error, reward }: Omit<RolloutResult, 'finalMessages'>,
  { rolloutId, metrics }: Omit<CompletedParts, 'texts'>,
): string {
  const head = JSON.stringify({
    rollout_id: rolloutId,
    status,
  } satisfies Partial<LoopCompletedBody>)
  const tail = JSON.stringify({
    ...(finishReason === null ? {} : { finish_reason: finishReason }),
    ...(error === null ? {} : { error_message: error }),
    ...(reward === null ? {} : { reward }),
    metrics,
    extra_fields: {},
  } satisfies Partial<LoopCompletedBody>)
  return `${head.slice(0, -1)},"final_messages":${messagesJson},${tail.slice(1)}`
}
