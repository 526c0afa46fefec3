import { errorMessage, isOsmosisError, type PromptMessage } from '@osmosis/core'
import {
  isAboutKey,
  isAboutModel,
  bearer,
  retryRequest,
  transportsByEgress,
  withTimeLimit,
  type EgressPolicy,
  type HttpRequest,
  type Transport,
} from '@osmosis/core/http'
import { isRetryableStatus } from '@osmosis/core/policy'
import type { RolloutTrace } from '@osmosis/core/tracing'
import { boundedBytes } from '@osmosis/protocol/http'
import type { LoopChatRequestBody } from '@osmosis/protocol/wire'
import { ConcurrencyLimiter } from '@osmosis/server/execution'
import type { CountedCall } from '@osmosis/server/protocols'

import type { CompletionParams } from '../rollout-agent-loop.ts'
import {
  OsmosisRolloutError,
  OsmosisServerError,
  OsmosisTimeoutError,
  OsmosisTransportError,
  OsmosisValidationError,
} from '../rollout-errors.ts'
import { assertMessages } from '../rollout-result.ts'
import type { RolloutClientSettings } from '../rollout-settings.ts'
import { toSentParameters, type SentParameters } from './chat-parameters.ts'
import { readAnswer, type ChatAnswer, type ChatResult } from './chat-result.ts'
import type { MessageTexts } from './message-texts.ts'

/** The connections for all model calls of this process with the same egress policy. */
const trainerTransport = transportsByEgress({
  name: 'policy endpoint',
  codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
  advise(refusal) {
    if (isAboutKey(refusal)) return 'Check the api_key of the rollout request.'
    if (refusal.status !== 404 || isAboutModel(refusal)) return ''
    return 'server_url is a base URL: "/v1/chat/completions" is appended to it.'
  },
  isTransientStatus: isRetryableStatus,
})

/** The longest answer, as in workflows. Bytes. */
const maxAnswerBytes = 64 * 1024 * 1024

/** The rollout whose policy a {@link ChatClient} calls. */
export interface ChatRoute {
  readonly rolloutId: string
  readonly serverUrl: string
  readonly apiKey: string | null
  readonly settings: RolloutClientSettings
  readonly egress: EgressPolicy
  readonly signal: AbortSignal
  readonly texts: MessageTexts
  /** Undefined when tracing is off. */
  readonly trace: RolloutTrace | undefined
  /**
   * Counts a call that has ended.
   *
   * @param latencyMs - of the request that was answered; undefined when none was
   */
  readonly onCall: (call: CountedCall, latencyMs: number | undefined) => void
}

/** One call of `chat`, checked. */
interface ChatCall {
  readonly messages: readonly PromptMessage[]
  /** The messages as JSON without brackets. */
  readonly conversation: string
  readonly sent: SentParameters
  /** From 1; a retry does not count. */
  readonly turn: number
  readonly signal: AbortSignal
  readonly closeConnection: boolean
}

/** Calls the policy of one rollout through its trainer. */
export class ChatClient {
  readonly #route: ChatRoute
  readonly #url: string
  readonly #transport: Transport
  readonly #calls: ConcurrencyLimiter
  #turn = 0
  /** The messages of the latest call and its answer, as JSON without brackets. */
  #conversation = ''

  constructor(route: ChatRoute) {
    this.#route = route
    this.#url = trainerUrl(route.serverUrl, '/v1/chat/completions')
    this.#transport = trainerTransport(route.egress)
    this.#calls = new ConcurrencyLimiter(route.settings.maxConnections)
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
    const { settings, texts, signal: rolloutSignal } = this.#route
    assertMessages(
      'messages of ctx.chat',
      messages,
      (problem) => new OsmosisValidationError('invalid_request', problem),
    )
    const conversation = messages.map((message) => texts.of(message)).join(',')
    const sent = toSentParameters(params)
    const signal = callerSignal ? AbortSignal.any([rolloutSignal, callerSignal]) : rolloutSignal
    this.#turn += 1
    const turn = this.#turn
    const closeConnection = this.#calls.running >= settings.maxKeepaliveConnections
    const release = await this.#calls.acquire(signal)
    try {
      return await this.#call({ messages, conversation, sent, turn, signal, closeConnection })
    } finally {
      release()
    }
  }

  /** Makes a call that has a slot. */
  async #call({
    messages,
    conversation,
    sent,
    turn,
    signal,
    closeConnection,
  }: ChatCall): Promise<ChatResult> {
    const { rolloutId, apiKey, settings, texts, trace, onCall } = this.#route
    const traced = trace?.call(
      { sampleId: undefined, endpoint: new URL(this.#url), model: sent.model, streams: false },
      { ...sent, messages },
    )
    const headers = {
      // They continue the trace at the trainer.
      ...traced?.headers(),
      'content-type': 'application/json',
      accept: 'application/json',
      // The same for every attempt, so that the trainer can recognise a retry.
      'idempotency-key': `${headerSafe(rolloutId)}/chat/${turn}`,
      ...bearer(apiKey),
    }
    const request: HttpRequest = {
      headers,
      body: bodyOf(rolloutId, conversation, sent),
      signal,
      closeConnection,
    }
    const started = performance.now()
    let sentAt = started
    let attempts = 0
    let hasBegun = false
    let answer: ChatAnswer | undefined
    let latencyMs: number | undefined
    let failure: unknown
    try {
      this.#conversation = conversation
      const text = await retryRequest(
        async () => {
          attempts += 1
          sentAt = performance.now()
          return this.#answerTo(request, () => (hasBegun = true))
        },
        {
          retries: settings.maxRetries,
          minDelayMs: settings.retryBaseDelaySeconds * 1000,
          maxDelayMs: settings.retryMaxDelaySeconds * 1000,
          signal,
          // A retry after the answer has begun would get a second answer.
          isRetryable: (error) =>
            !hasBegun &&
            (error instanceof OsmosisTimeoutError || this.#transport.isTransient(error)),
        },
      )
      const answered = performance.now()
      const read = readAnswer(text)
      const written = texts.remember(read.result.message, text)
      this.#conversation = conversation === '' ? written : `${conversation},${written}`
      answer = read
      latencyMs = answered - sentAt
      return read.result
    } catch (error) {
      failure = toChatError(error)
      throw failure
    } finally {
      const ended = {
        attempts,
        durationMs: performance.now() - started,
        timeToFirstChunkMs: null,
        finishReason: answer?.result.finishReason ?? null,
        usage: answer?.result.usage ?? null,
      }
      onCall({ ...ended, error: answer ? null : errorMessage(failure) }, latencyMs)
      const call = { ...ended, model: answer?.model ?? null }
      traced?.end({ call, responseId: answer?.id, message: answer?.result.message }, failure)
    }
  }

  /** Sends the request once. */
  async #answerTo(request: HttpRequest, onBegin: () => void): Promise<string> {
    const { timeoutSeconds } = this.#route.settings
    const late = (): Error =>
      new OsmosisTimeoutError(
        `The trainer at ${this.#url} gave no complete answer in ${timeoutSeconds} s.`,
      )
    const limit = { limitMs: timeoutSeconds * 1000, outer: request.signal, late }
    return withTimeLimit(limit, async (signal) => {
      const { body } = await this.#transport.post(this.#url, { ...request, signal })
      onBegin()
      const bytes = await boundedBytes(body, maxAnswerBytes).catch((cause: unknown) => {
        throw new OsmosisTransportError(
          `The connection closed during the trainer's answer to a model call: ${errorMessage(cause)}`,
          { cause },
        )
      })
      return textOf(bytes)
    })
  }
}

/** @throws OsmosisValidationError with code `policy_stream_error` for bytes that would not be recorded as the policy wrote them */
function textOf(bytes: Buffer | undefined): string {
  if (bytes === undefined) {
    throw new OsmosisValidationError(
      'policy_stream_error',
      `The trainer answered a model call with more than ${maxAnswerBytes} bytes, the most that an answer may have.`,
    )
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new OsmosisValidationError(
      'policy_stream_error',
      `The trainer answered a model call with bytes that are not UTF-8 text: ${bytes.toString('utf8', 0, 200)}`,
      { cause },
    )
  }
}

/** Converts a failed model call to an error of this package. The error that ended the rollout is not converted. */
function toChatError(error: unknown): unknown {
  if (error instanceof OsmosisRolloutError || !isOsmosisError(error)) return error
  const { message, status, retryAfterMs } = error
  const options = { cause: error, status, retryAfterMs }
  if (error.code === 'policy_unreachable') return new OsmosisTransportError(message, options)
  if (error.code !== 'policy_http_error' && error.code !== 'egress_refused') return error
  return (status ?? 0) >= 500
    ? new OsmosisServerError(message, options)
    : new OsmosisValidationError(error.code, message, options)
}

/** In the order of the Python SDK. */
function bodyOf(
  rolloutId: string,
  messagesJson: string,
  { model, stop, temperature, top_p, max_tokens, logprobs }: SentParameters,
): string {
  const tail = JSON.stringify({
    rollout_id: rolloutId,
    temperature,
    top_p,
    max_tokens,
    ...(stop === null ? {} : { stop }),
    logprobs,
  } satisfies Omit<LoopChatRequestBody, 'messages'>)
  return `{"model":${JSON.stringify(model)},"messages":[${messagesJson}],${tail.slice(1)}`
}

/** URL of a route of the trainer. Keeps a base path, without slashes at its end. */
export function trainerUrl(serverUrl: string, route: string): string {
  return `${serverUrl.replace(/\/+$/, '')}${route}`
}

/** A rollout id in header form: ids are free text, headers are not. */
export function headerSafe(rolloutId: string): string {
  return encodeURIComponent(rolloutId.toWellFormed())
}
