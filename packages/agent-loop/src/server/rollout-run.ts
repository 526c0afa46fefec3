import { errorCategory, errorMessage, OsmosisError, type ConcurrencyLimiter } from '@osmosis/core'
import { UserCode } from '@osmosis/core/containment'
import { startTimer, type EgressPolicy } from '@osmosis/core/http'
import type { FunctionTool } from '@osmosis/core/wire'
import type { Logger } from '@osmosis/server'
import type { Callback, SecretValues, ServerMetrics } from '@osmosis/server/internal'

import { ChatClient } from '../chat/chat-client.ts'
import { MessageTexts } from '../chat/message-texts.ts'
import { headerSafe, trainerUrl } from '../chat/trainer-transport.ts'
import type { RolloutAgentLoop } from '../rollout-agent-loop.ts'
import { MetricsCounter } from '../rollout-metrics.ts'
import type { RolloutRequest } from '../rollout-request.ts'
import { checkedResult, type RolloutResult } from '../rollout-result.ts'
import type { RolloutSettings } from '../settings/rollout-settings.ts'
import { completedBody, failedBody } from './completed-body.ts'
import { EventTrace, type TraceFolder } from './event-trace.ts'
import { RunContext } from './run-context.ts'

/** What the runs of one app share. */
export interface RunServices {
  readonly loop: RolloutAgentLoop
  readonly settings: RolloutSettings
  readonly limiter: ConcurrencyLimiter
  /** Where model calls may go. */
  readonly egress: EgressPolicy
  readonly secrets: SecretValues
  readonly logger: Logger
  readonly metrics: ServerMetrics
  /** Null: no traces are kept. */
  readonly traces: TraceFolder | null
  readonly onUnknownParameters: (names: readonly string[]) => void
}

/** A rollout that was accepted. */
export interface AcceptedRollout {
  readonly request: RolloutRequest
  readonly tools: readonly FunctionTool[]
  /** Bearer for everything that goes to the trainer. */
  readonly apiKey: string | null
}

/** One rollout from its acceptance to the body of its `completed` call, which is built once. */
export class RolloutRun {
  readonly #services: RunServices
  readonly #rollout: AcceptedRollout
  readonly #code: UserCode
  readonly #metrics = new MetricsCounter()
  readonly #clock: ReturnType<ServerMetrics['rollouts']['begin']>
  readonly #texts = new MessageTexts()
  readonly #client: ChatClient
  readonly #trace: EventTrace | null

  constructor(services: RunServices, rollout: AcceptedRollout) {
    const { rolloutId, serverUrl } = rollout.request
    this.#services = services
    this.#rollout = rollout
    this.#code = new UserCode({ rolloutId, part: 'agent loop' })
    this.#clock = services.metrics.rollouts.begin()
    this.#trace = services.traces && new EventTrace(services.traces, rolloutId)
    this.#client = new ChatClient({
      rolloutId,
      serverUrl,
      apiKey: rollout.apiKey,
      settings: services.settings.client,
      egress: services.egress,
      signal: this.#code.signal,
      metrics: this.#metrics,
      onCall: (call) => services.metrics.policy.count(call),
      texts: this.#texts,
    })
  }

  /** Ends the rollout early; `reason` is the error that the trainer gets. */
  abort(reason: OsmosisError): void {
    this.#code.abort(reason)
  }

  /** Runs the loop and resolves with the one message about it. Never rejects. */
  async finish(): Promise<Callback> {
    const body = await this.#body()
    // The answers of calls that the loop left behind would go nowhere.
    this.abort(new OsmosisError('rollout_ended', 'the rollout is over'))
    await this.#trace?.flushed()
    return toCallback(this.#rollout, body)
  }

  async #body(): Promise<string> {
    const { rolloutId } = this.#rollout.request
    const { logger, secrets } = this.#services
    try {
      const { errorMessage: said, ...result } = await this.#run()
      const shown = said === null ? null : secrets.redactError(said)
      const metrics = this.#metrics.snapshot()
      const parts = { rolloutId, metrics, texts: this.#texts }
      const body = completedBody({ ...result, errorMessage: shown }, parts)
      this.#clock.end(result.status === 'ERROR' ? givenUp : null)
      return body
    } catch (error) {
      this.#clock.end({ category: errorCategory(error), cause: error })
      const message = secrets.redactError(errorMessage(error))
      logger.warn({ rollout_id: rolloutId, error }, `rollout failed: ${message}`)
      const metrics = this.#metrics.snapshot()
      return failedBody(message, this.#client.conversationJson, { rolloutId, metrics })
    }
  }

  async #run(): Promise<RolloutResult> {
    const { loop, limiter, settings, onUnknownParameters } = this.#services
    const { signal } = this.#code
    const release = await limiter.acquire(signal)
    this.#clock.enter('workflow')
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
        trace: this.#trace,
        onUnknownParameters,
      })
      return checkedResult(await this.#code.run(async () => loop.run(context)))
    } finally {
      timer.clear()
      release()
    }
  }
}

/** The loop itself says that it did not succeed. */
const givenUp = { category: 'agent_error', cause: undefined } as const

/** What the trainer is told of a rollout whose server is gone before it has ended. */
export function interruptedCallback(rollout: Omit<AcceptedRollout, 'tools'>): Callback {
  const { rolloutId } = rollout.request
  const message =
    'the rollout server restarted while the rollout was running; run it again under a new id'
  const metrics = new MetricsCounter().snapshot()
  return toCallback(rollout, failedBody(message, '[]', { rolloutId, metrics }))
}

function toCallback({ request, apiKey }: Omit<AcceptedRollout, 'tools'>, body: string): Callback {
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
