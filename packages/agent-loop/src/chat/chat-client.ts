import { ConcurrencyLimiter } from '@osmosis/server/execution'
import { errorMessage, type PromptMessage } from '@osmosis/core'
import {
  bearer,
  retryRequest,
  withTimeLimit,
  type EgressPolicy,
  type Transport,
} from '@osmosis/core/http'
import type { CallTrace, RolloutTrace } from '@osmosis/core/tracing'
import type { LoopChatRequestBody } from '@osmosis/protocol/wire'
import type { CountedCall } from '@osmosis/server/protocols'

import { OsmosisTimeoutError, OsmosisValidationError } from '../rollout-errors.ts'
import type { MetricsCounter } from '../server/rollout-metrics.ts'
import type { CompletionParams } from '../rollout-agent-loop.ts'
import { assertMessages } from '../rollout-result.ts'
import type { RolloutClientSettings } from '../rollout-settings.ts'
import { toSentParameters, type SentParameters } from './chat-parameters.ts'
import {
  messageIn,
  namesOfAnswer,
  toChatResult,
  type AnswerNames,
  type ChatResult,
} from './chat-result.ts'
import type { MessageTexts } from './message-texts.ts'
import {
  brokenAnswer,
  headerSafe,
  toChatError,
  trainerTransport,
  trainerUrl,
} from './trainer-transport.ts'

const completionsRoute = '/v1/chat/completions'

/** Options of {@link ChatClient}. */
export interface ChatClientInit {
  readonly rolloutId: string
  readonly serverUrl: string
  readonly apiKey: string | null
  readonly settings: RolloutClientSettings
  readonly egress: EgressPolicy
  readonly signal: AbortSignal
  readonly metrics: MetricsCounter
  /** Counts an ended call. */
  readonly onCall: (call: CountedCall) => void
  readonly texts: MessageTexts
  /** Traces the calls; undefined when tracing is off. */
  readonly trace: RolloutTrace | undefined
}

/** One model call; every attempt sends the same. */
interface Call {
  /** Number of attempts so far. */
  attempts: number
  readonly body: string
  /** They continue the trace at the trainer. */
  readonly traceHeaders: Readonly<Record<string, string>>
  /** From 1 in its rollout. */
  readonly turn: number
  readonly signal: AbortSignal
  readonly closeConnection: boolean
}

/** Calls the policy of one rollout through its trainer. */
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

  /** The conversation after the latest call: a JSON array. */
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
    const sent = toSentParameters(params)
    const body = this.#body(conversation, sent)
    const signal = callerSignal ? AbortSignal.any([rolloutSignal, callerSignal]) : rolloutSignal
    this.#turn += 1
    const turn = this.#turn
    const closeConnection = this.#calls.running >= this.#init.settings.maxKeepaliveConnections
    const release = await this.#calls.acquire(signal)
    const traced = this.#trace(messages, sent)
    const traceHeaders = traced?.headers() ?? {}
    const call: Call = { body, traceHeaders, turn, signal, closeConnection, attempts: 0 }
    const started = performance.now()
    const measured = (): Pick<CountedCall, 'attempts' | 'durationMs' | 'timeToFirstChunkMs'> => ({
      attempts: call.attempts,
      durationMs: performance.now() - started,
      timeToFirstChunkMs: null,
    })
    try {
      this.#conversation = conversation
      const { result, text, about } = await this.#send(call)
      this.#conversation = conversation === '' ? text : `${conversation},${text}`
      const { finishReason, usage, message } = result
      const ended = { ...measured(), finishReason, usage }
      this.#init.onCall({ ...ended, error: null })
      const answered = { call: { ...ended, model: about.model }, responseId: about.id, message }
      traced?.end(answered, undefined)
      return result
    } catch (error) {
      const ended = { ...measured(), finishReason: null, usage: null }
      this.#init.onCall({ ...ended, error: errorMessage(error) })
      const failure = toChatError(error)
      const unanswered = {
        call: { ...ended, model: null },
        responseId: undefined,
        message: undefined,
      }
      traced?.end(unanswered, failure)
      throw failure
    } finally {
      release()
    }
  }

  #trace(messages: readonly PromptMessage[], sent: SentParameters): CallTrace | undefined {
    const { trace, serverUrl } = this.#init
    if (trace === undefined) return undefined
    const endpoint = new URL(trainerUrl(serverUrl, completionsRoute))
    const call = { sampleId: undefined, endpoint, model: sent.model, streams: false }
    return trace.call(call, { ...sent, messages })
  }

  #body(messagesJson: string, { model, stop, ...others }: SentParameters): string {
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

  async #send(call: Call): Promise<{ result: ChatResult; text: string; about: AnswerNames }> {
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
          error instanceof OsmosisTimeoutError || this.#transport.isTransient(error),
      },
    )
    const text = answer()
    const parsed = parseAnswer(text)
    const result = toChatResult(parsed)
    metrics.llmCall(latencyMs, result.usage)
    const about = namesOfAnswer(parsed)
    return { result, text: texts.remember(result.message, text, messageIn), about }
  }

  /**
   * Sends the request once. Rejects only before an answer has started: a retry after that would get a
   * second answer, so later errors are thrown by the returned function.
   */
  async #attempt({
    body,
    traceHeaders,
    turn,
    signal: outer,
    closeConnection,
  }: Call): Promise<() => string> {
    const { rolloutId, serverUrl, apiKey, settings } = this.#init
    const url = trainerUrl(serverUrl, completionsRoute)
    const { timeoutSeconds } = settings
    const limit = {
      limitMs: timeoutSeconds * 1000,
      outer,
      late: () =>
        new OsmosisTimeoutError(
          `The trainer at ${url} gave no complete answer in ${timeoutSeconds} s.`,
        ),
    }
    return withTimeLimit(limit, async (signal) => {
      const headers = {
        ...traceHeaders,
        'content-type': 'application/json',
        accept: 'application/json',
        // The same for every attempt, so that the trainer can recognise a retry.
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
