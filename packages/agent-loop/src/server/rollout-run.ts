import { errorCategory, errorMessage, OsmosisError } from '@osmosis/core'
import { startTimer, type TraceHeaders } from '@osmosis/core/http'
import { beginRolloutTrace, type RolloutTrace } from '@osmosis/core/tracing'
import type { RolloutFailure } from '@osmosis/protocol'
import type {
  RolloutStatus,
  FunctionTool,
  LoopCompletedBody,
  RolloutMetrics,
} from '@osmosis/protocol/wire'
import { type ConcurrencyLimiter, thrownBy, UserCode } from '@osmosis/server/execution'
import type {
  Callback,
  OwnershipLog,
  ServerMetrics,
  ServerServices,
} from '@osmosis/server/protocols'

import { ChatClient, headerSafe, trainerUrl } from '../chat/chat-client.ts'
import { unknownParameters } from '../chat/chat-parameters.ts'
import { MessageTexts } from '../chat/message-texts.ts'
import type { RolloutAgentLoop, RolloutContext, RolloutRequest } from '../rollout-agent-loop.ts'
import { checkedResult, type RolloutResult } from '../rollout-result.ts'
import type { RolloutSettings } from '../rollout-settings.ts'
import { EventTrace } from './event-trace.ts'

/** Shared by all runs of one app. */
export interface RunServices extends Pick<
  ServerServices,
  'egress' | 'secrets' | 'logger' | 'metrics'
> {
  readonly loop: RolloutAgentLoop
  readonly settings: RolloutSettings
  /** Assigns the slots. */
  readonly limiter: ConcurrencyLimiter
  /** Folder for traces; undefined: traces are off. */
  readonly traceFolder: string | undefined
  /** Called with the names of parameters that are omitted. */
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
  readonly #started = performance.now()
  readonly #metrics = noMetrics()
  readonly #clock: ReturnType<ServerMetrics['rollouts']['begin']>
  readonly #texts = new MessageTexts()
  readonly #client: ChatClient
  /** Undefined: traces are off. */
  readonly #events: EventTrace | undefined
  /** Undefined when tracing is off. */
  readonly #trace: RolloutTrace | undefined
  readonly #report: (status: RolloutStatus) => void

  constructor(services: RunServices, rollout: AcceptedRollout) {
    const { loop, settings, egress, metrics, ownership, traceFolder } = services
    const { apiKey, traceHeaders, request } = rollout
    const { rolloutId, serverUrl } = request
    this.#services = services
    this.#rollout = rollout
    this.#code = new UserCode({ rolloutId, part: 'agent loop' })
    this.#clock = metrics.rollouts.begin()
    this.#report = ownership?.begin(request) ?? (() => undefined)
    this.#report('queued')
    if (traceFolder !== undefined) {
      this.#events = new EventTrace(traceFolder, rolloutId, services)
    }
    const traced = { rolloutId, apiKey: apiKey ?? undefined, traceHeaders }
    this.#trace = beginRolloutTrace(traced, loop.name)
    this.#client = new ChatClient({
      rolloutId,
      serverUrl,
      apiKey,
      settings: settings.client,
      egress,
      signal: this.#code.signal,
      texts: this.#texts,
      trace: this.#trace,
      onCall: (call, latencyMs) => {
        metrics.policy.count(call)
        if (latencyMs === undefined) return
        this.#metrics.num_llm_calls += 1
        this.#metrics.llm_latency_ms += latencyMs
        this.#metrics.prompt_tokens += call.usage?.prompt_tokens ?? 0
        this.#metrics.response_tokens += call.usage?.completion_tokens ?? 0
      },
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
      const result = await this.#run()
      hasRun = true
      const { status, finalMessages, reward } = result
      const text = result.errorMessage === null ? null : secrets.redactError(result.errorMessage)
      const shown = { ...result, errorMessage: text }
      const messages = finalMessages.map((message) => this.#texts.of(message))
      const body = completedBody(rolloutId, shown, `[${messages.join(',')}]`, this.#snapshot())
      if (reward !== null) this.#trace?.rewardedItself(loop.name, reward)
      const failed = status === 'ERROR'
      if (failed) this.#trace?.fail(text ?? '', loopFailure.category)
      this.#end(failed ? loopFailure : null)
      return body
    } catch (error) {
      this.#trace?.fail(error)
      this.#end({ category: errorCategory(error), cause: error })
      const why = hasRun ? errorMessage(error) : thrownBy('run()', error)
      const message = secrets.redactError(why)
      logger.warn({ rollout_id: rolloutId, error }, `rollout failed: ${message}`)
      const { conversationJson } = this.#client
      return completedBody(rolloutId, failedResult(message), conversationJson, this.#snapshot())
    }
  }

  #snapshot(): RolloutMetrics {
    return { ...this.#metrics, total_latency_ms: performance.now() - this.#started }
  }

  #end(failure: Pick<RolloutFailure, 'category' | 'cause'> | null): void {
    const outcome = this.#clock.end(failure)
    if (outcome !== undefined) this.#report(outcome)
  }

  async #run(): Promise<RolloutResult> {
    const { loop, limiter, settings } = this.#services
    const release = await limiter.acquire(this.#code.signal)
    this.#clock.enter('workflow')
    this.#report('running')
    const { requestTimeoutSeconds } = settings.server
    const timer = startTimer((requestTimeoutSeconds ?? Infinity) * 1000, () => {
      const message = `the rollout took longer than ${requestTimeoutSeconds} s`
      this.abort(new OsmosisError('timeout', message))
    })
    try {
      const context = this.#context()
      return checkedResult(await this.#code.run(async () => loop.run(context)))
    } finally {
      timer.clear()
      release()
    }
  }

  #context(): RolloutContext {
    const { request, tools } = this.#rollout
    return {
      request,
      tools,
      signal: this.#code.signal,
      debugEnabled: this.#events !== undefined,
      chat: async (messages, params = {}, { signal } = {}) => {
        const unknown = unknownParameters(params)
        if (unknown.length > 0) this.#services.onUnknownParameters(unknown)
        return this.#client.chat(messages, params, signal)
      },
      complete: (finalMessages, { finishReason = 'stop', reward } = {}) =>
        checkedResult({ status: 'COMPLETED', finalMessages, finishReason, reward }),
      error: (message, { finalMessages = [] } = {}) =>
        checkedResult({ ...failedResult(message), finalMessages }),
      recordToolCall: ({ latencyMs = 0 } = {}) => {
        this.#metrics.num_tool_calls += 1
        if (Number.isFinite(latencyMs)) this.#metrics.tool_latency_ms += latencyMs
      },
      logEvent: (event, data = {}) => this.#events?.log(event, data),
    }
  }
}

/** The loop itself reported that it failed. */
const loopFailure = { category: 'agent_error', cause: undefined } as const

/** The callback for a rollout whose server exited before it ended. */
export function interruptedCallback(
  rollout: Pick<AcceptedRollout, 'request' | 'apiKey'>,
): Callback {
  const message =
    'the rollout server restarted while the rollout was running; run it again under a new id'
  const { rolloutId } = rollout.request
  return toCallback(rollout, completedBody(rolloutId, failedResult(message), '[]', noMetrics()))
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

function noMetrics(): { -readonly [K in keyof RolloutMetrics]: number } {
  return {
    total_latency_ms: 0,
    llm_latency_ms: 0,
    tool_latency_ms: 0,
    num_llm_calls: 0,
    num_tool_calls: 0,
    prompt_tokens: 0,
    response_tokens: 0,
    max_context_tokens: 0,
  }
}

/** The result of a rollout that failed. Its messages are the conversation so far. */
function failedResult(message: string): Omit<RolloutResult, 'finalMessages'> {
  return { status: 'ERROR', finishReason: 'error', errorMessage: message, reward: null }
}

/** The body of the one `completed` call of a rollout. */
function completedBody(
  rolloutId: string,
  { status, finishReason, errorMessage: error, reward }: Omit<RolloutResult, 'finalMessages'>,
  messagesJson: string,
  metrics: RolloutMetrics,
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
