import { ConcurrencyLimiter, errorMessage, type PromptMessage } from '@osmosis/core'
import {
  bearer,
  retryRequest,
  withTimeLimit,
  type EgressPolicy,
  type Transport,
} from '@osmosis/core/http'
import type { LoopChatRequestBody } from '@osmosis/core/wire'
import type { CountedCall } from '@osmosis/server/internal'

import { OsmosisTimeoutError, OsmosisValidationError } from '../rollout-errors.ts'
import type { MetricsCounter } from '../rollout-metrics.ts'
import type { CompletionParams } from '../rollout-request.ts'
import { assertMessages } from '../rollout-result.ts'
import type { RolloutClientSettings } from '../settings/rollout-settings.ts'
import { toSentParameters } from './chat-parameters.ts'
import { messageIn, toChatResult, type ChatResult } from './chat-result.ts'
import type { MessageTexts } from './message-texts.ts'
import {
  brokenAnswer,
  headerSafe,
  toChatError,
  trainerTransport,
  trainerUrl,
} from './trainer-transport.ts'

/** What the model calls of one rollout need. */
export interface ChatClientInit {
  readonly rolloutId: string
  readonly serverUrl: string
  readonly apiKey: string | null
  readonly settings: RolloutClientSettings
  readonly egress: EgressPolicy
  readonly signal: AbortSignal
  readonly metrics: MetricsCounter
  /** Counts a call that has ended. */
  readonly onCall: (call: CountedCall) => void
  readonly texts: MessageTexts
}

/** One model call, as it is sent on every try. */
interface Call {
  /** How often it was sent so far. */
  attempts: number
  readonly body: string
  /** From 1 in its rollout. */
  readonly turn: number
  readonly signal: AbortSignal
  readonly closeConnection: boolean
}

/** The way from one rollout to the policy behind its trainer. */
export class ChatClient {
  readonly #init: ChatClientInit
  readonly #transport: Transport
  readonly #calls: ConcurrencyLimiter
  #turn = 0
  /** The messages of the latest call and its answer, as JSON without brackets. */
  #conversation = ''

  constructor(init: ChatClientInit) {
    this.#init = init
    this.#transport = trainerTransport(init.egress)
    this.#calls = new ConcurrencyLimiter(init.settings.maxConnections)
  }

  /** The conversation as the latest call left it: a JSON array. */
  get conversationJson(): string {
    return `[${this.#conversation}]`
  }

  /** See `chat` of the context. */
  async chat(
    messages: readonly PromptMessage[],
    params: Readonly<CompletionParams>,
    callerSignal: AbortSignal | undefined,
  ): Promise<ChatResult> {
    const { signal: rolloutSignal, texts } = this.#init
    assertMessages(messages)
    const conversation = messages.map((message) => texts.of(message)).join(',')
    const body = this.#body(conversation, params)
    const signal = callerSignal ? AbortSignal.any([rolloutSignal, callerSignal]) : rolloutSignal
    this.#turn += 1
    const turn = this.#turn
    const closeConnection = this.#calls.running >= this.#init.settings.maxKeepaliveConnections
    const release = await this.#calls.acquire(signal)
    const call: Call = { body, turn, signal, closeConnection, attempts: 0 }
    const started = performance.now()
    const count = (ended: Pick<CountedCall, 'finishReason' | 'usage' | 'error'>): void => {
      const durationMs = performance.now() - started
      this.#init.onCall({ attempts: call.attempts, durationMs, timeToFirstChunkMs: null, ...ended })
    }
    try {
      this.#conversation = conversation
      const { result, text } = await this.#ask(call)
      this.#conversation = conversation === '' ? text : `${conversation},${text}`
      count({ finishReason: result.finishReason, usage: result.usage, error: null })
      return result
    } catch (error) {
      count({ finishReason: null, usage: null, error: errorMessage(error) })
      throw toChatError(error)
    } finally {
      release()
    }
  }

  #body(messagesJson: string, params: Readonly<CompletionParams>): string {
    const { model, stop, ...others } = toSentParameters(params)
    const { temperature, top_p, max_tokens, logprobs } = others
    const head = `"model":${JSON.stringify(model)},"messages":[${messagesJson}]`
    const tail = JSON.stringify({
      rollout_id: this.#init.rolloutId,
      temperature,
      top_p,
      max_tokens,
      ...(stop === null ? {} : { stop }),
      logprobs,
    } satisfies Omit<LoopChatRequestBody, 'messages'>)
    return `{${head},${tail.slice(1)}`
  }

  async #ask(call: Call): Promise<{ result: ChatResult; text: string }> {
    const { settings, metrics, texts } = this.#init
    const { answer, latencyMs } = await retryRequest(
      async () => {
        const started = performance.now()
        call.attempts += 1
        const text = await this.#attempt(call)
        return { answer: text, latencyMs: performance.now() - started }
      },
      {
        retries: settings.maxRetries,
        minDelayMs: settings.retryBaseDelaySeconds * 1000,
        maxDelayMs: settings.retryMaxDelaySeconds * 1000,
        signal: call.signal,
        isRetryable: (error) =>
          error instanceof OsmosisTimeoutError || this.#transport.isPassing(error),
      },
    )
    const text = answer()
    const result = toChatResult(parseAnswer(text))
    metrics.llmCall(latencyMs, result.usage)
    return { result, text: texts.remember(result.message, text, messageIn) }
  }

  /**
   * Sends the request once. Rejects only as long as no answer has begun: from there on asking
   * again would be a second answer, so what goes wrong then waits in the function it resolves with.
   */
  async #attempt({ body, turn, signal: outer, closeConnection }: Call): Promise<() => string> {
    const { rolloutId, serverUrl, apiKey, settings } = this.#init
    const url = trainerUrl(serverUrl, '/v1/chat/completions')
    const { timeoutSeconds } = settings
    const limit = {
      limitMs: timeoutSeconds * 1000,
      outer,
      late: () =>
        new OsmosisTimeoutError(
          `The trainer at ${url} gave no whole answer in ${timeoutSeconds} s.`,
        ),
    }
    return withTimeLimit(limit, async (signal) => {
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json',
        // The same for every attempt: a trainer can see that it is asked for one answer.
        'idempotency-key': `${headerSafe(rolloutId)}/chat/${turn}`,
        ...bearer(apiKey),
      }
      const answer = await this.#transport.post(url, { headers, body, signal, closeConnection })
      return readText(answer.body, signal)
    })
  }
}

async function readText(
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<() => string> {
  const parts: Uint8Array[] = []
  try {
    for await (const part of body) parts.push(part)
  } catch (error) {
    const failure: unknown = signal.aborted ? signal.reason : brokenAnswer(error)
    return () => {
      throw failure
    }
  }
  const text = Buffer.concat(parts).toString('utf8')
  return () => text
}

function parseAnswer(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new OsmosisValidationError(
      'policy_stream_error',
      `The trainer answered a model call with something that is not JSON: ${text.slice(0, 200)}`,
      { cause: error },
    )
  }
}
