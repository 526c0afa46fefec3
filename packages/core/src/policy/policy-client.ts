import { isOsmosisError, OsmosisError } from '../errors.ts'
import type { EgressPolicy } from '../http/egress/egress-policy.ts'
import { foreignText, isForeign } from '../http/error-body.ts'
import { retryFailed } from '../http/retry.ts'
import type { HttpResponse } from '../http/response.ts'
import type { EndpointNames, HttpRequest } from '../http/exchange.ts'
import { isAboutModel } from '../http/refused-call.ts'
import type { Transport } from '../http/transport.ts'
import { untilAborted } from '../http/waiting.ts'
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
} from './chat-completion.ts'
import type { EndedCall } from '../tracing/call-attributes.ts'
import type { CallTrace, RolloutTrace, TracedCall } from '../tracing/rollout-trace.ts'
import type { PolicyLimits } from './answer/answer-limits.ts'
import type { RolloutBudget } from '../workflow/rollout-limits.ts'
import { isLostBeforeAnswer, PolicyAnswer, unreadable } from './answer/answer-stream.ts'
import type { CallLog, CallRecorder, MeasuredCall } from './call-log.ts'
import { CompletionAccumulator } from './answer/completion-accumulator.ts'
import {
  aboutCall,
  callUse,
  type CallUse,
  policyHeaders,
  type PolicyIdentity,
  type PolicyWire,
  wireRequest,
  type WireSettings,
  wireSettings,
} from './policy-wire.ts'
import {
  completionsUrl,
  type PausedCalls,
  pausesOf,
  type PolicyAddress,
  policyTransport,
} from './policy-endpoint.ts'
import { createPolicyFetch } from './policy-fetch.ts'
import {
  type Answered,
  type PolicyCallOptions,
  type PolicyStream,
  policyStream,
  stoppedReading,
} from './policy-stream.ts'

/**
 * Calls the policy for one sample: every model call of every framework goes through here. Requests carry the
 * rollout's identity, failures before the answer are retried, an answer that breaks off is an error, and every
 * call is recorded under the sample.
 */
export interface PolicyClient {
  /** Base URL of the policy, without `/chat/completions`. */
  readonly baseUrl: string
  /**
   * Calls the policy. Returns the chunks of its answer as they arrive, then the whole answer. While the
   * endpoint answers 429 or 503 with `Retry-After`, the call waits as long as that says, at most a minute
   * each time, and while the policy is away, for `awaySeconds` of its limits; this does not count as a retry.
   *
   * @throws OsmosisError with code `policy_http_error`, `policy_unreachable`,
   * `policy_stream_error`, `egress_refused` or `invalid_request`; the signal's reason when aborted; the deadline or
   * cancellation of the rollout (`timeout`, `cancelled`, `withdrawn`, `rollout_ended`)
   */
  stream(request: ChatCompletionRequest, options?: PolicyCallOptions): PolicyStream
  /** Calls the policy and resolves with its whole answer. Throws what `stream` throws. */
  complete(request: ChatCompletionRequest, options?: PolicyCallOptions): Promise<ChatCompletion>
  /**
   * The same as a `fetch`, for SDKs that accept one. It serves `POST …/chat/completions` only. Of the SDK's
   * headers it forwards `user-agent` and those of {@link PolicyCallOptions} only, because SDKs fill
   * others from the environment.
   */
  readonly fetch: typeof globalThis.fetch
}

/** A model call that is about to be sent. */
export interface StartingModelCall {
  /** URL of the request: that of the policy, with `/chat/completions`. */
  readonly endpoint: string
  /** Aborted when the caller no longer waits for the answer; the observer has to reject then. */
  readonly signal: AbortSignal
}

/** What all samples of a rollout share to call the policy. */
export interface PolicyRoute {
  readonly rolloutId: string
  readonly endpoint: PolicyAddress
  readonly apiKey: string | undefined
  readonly wire: PolicyWire | undefined
  /** What the sender of the rollout calls the endpoint. */
  readonly names: EndpointNames | undefined
  readonly egress: EgressPolicy
  readonly limits: Required<PolicyLimits>
  readonly budget: RolloutBudget | undefined
  readonly signal: AbortSignal
  /** Awaited before each call is sent, and before {@link PolicyRoute.beforeCall}. */
  readonly callBegins: ((call: StartingModelCall) => Promise<() => void>) | undefined
  /** Awaited before each call is sent. */
  readonly beforeCall: (() => Promise<void>) | undefined
  readonly paused: PausedCalls
  /** Called when the endpoint reports that the trainer withdrew the rollout, which has to end then. */
  readonly onWithdrawn: ((reason: OsmosisError) => void) | undefined
}

/** The sample of a client. */
export interface PolicyClientSample {
  readonly id: string
  readonly log: CallLog
  /** Undefined when tracing is off. */
  readonly trace: RolloutTrace | undefined
}

export function createPolicyClient(route: PolicyRoute, sample: PolicyClientSample): PolicyClient {
  const calls = new PolicyCalls(route, sample)
  const stream: PolicyClient['stream'] = (request, options = {}) =>
    policyStream((answered) => calls.answerTo(request, options, answered))
  const complete: PolicyClient['complete'] = (request, options = {}) =>
    calls.answerTo(request, options).next().then(wholeAnswer)
  const { baseUrl } = route.endpoint
  return { baseUrl, stream, complete, fetch: createPolicyFetch({ stream }) }
}

/**
 * The model calls of one sample. A class, because a generator function per client would stay in memory, with
 * everything it can reach, until a full garbage collection.
 */
class PolicyCalls {
  readonly #route: PolicyRoute
  readonly #sample: PolicyClientSample
  readonly #transport: Transport
  readonly #wire: WireSettings

  constructor(route: PolicyRoute, sample: PolicyClientSample) {
    this.#route = route
    this.#sample = sample
    this.#transport = policyTransport(route.egress)
    this.#wire = wireSettings(route.wire)
  }

  /**
   * @param answered - settled with the answer, for callers that read its chunks; without it no chunk is
   * yielded, because yielding costs more than parsing
   */
  async *answerTo(
    request: ChatCompletionRequest,
    options: PolicyCallOptions,
    answered?: Answered,
  ): AsyncGenerator<ChatCompletionChunk, ChatCompletion> {
    const route = this.#route
    const { log, trace } = this.#sample
    const signal = options.signal ? AbortSignal.any([route.signal, options.signal]) : route.signal
    let call: CallRecorder | undefined
    let traced: CallTrace | undefined
    let ended: (() => void) | undefined
    let reading: PolicyAnswer | undefined
    let answer: CompletionAccumulator | undefined
    let failure: unknown
    try {
      signal.throwIfAborted()
      assertOneAnswer(request)
      route.budget?.begin()
      const use = callUse(options)
      const settings = wireRequest(this.#wire, request)
      call = log.begin(request.messages, aboutCall(settings, use))
      traced = trace?.call(this.#tracedCall(), { ...settings, messages: request.messages })
      const headers = traced ? { ...options.headers, ...traced.headers() } : options.headers
      const { callBegins, beforeCall } = route
      const url = this.#urlOf(use)
      if (callBegins) ended = await callBegins({ endpoint: url.href, signal })
      if (beforeCall) await untilAborted(signal, beforeCall)
      const body = bodyOf(settings, call.messagesJson())
      const sent = {
        url,
        headers: policyHeaders(this.#identity(), headers, use),
        body,
        signal,
        names: route.names,
      }
      let begun: BegunAnswer
      try {
        begun = await this.#begin(sent, call)
      } catch (error) {
        begun = await this.#retry(error, sent, call, options.retries)
      }
      reading = begun.reading
      answer = new CompletionAccumulator(request, log.aliases)
      const add = chunkAdder(answer, call, signal)
      for (
        let { chunks } = begun;
        chunks.length > 0 || !reading.complete;
        chunks = reading.complete ? [] : await reading.next()
      ) {
        if (answered === undefined) chunks.forEach(add)
        else for (const chunk of chunks) yield add(chunk)
      }
      // An aborted connection can look like an ordinary end of the answer.
      signal.throwIfAborted()
      const rest = answer.end()
      if (answered !== undefined && rest !== undefined) yield rest
      return this.#succeed(call, answer, answered)
    } catch (error) {
      const reason = this.#isWithdrawal(error) ? this.#withdrawn(error) : error
      // An abort can arrive as any error; its reason says what happened.
      failure = signal.aborted ? signal.reason : reason
      answered?.reject(failure)
      if (options.signal?.aborted) call?.leave(failure)
      else call?.fail(failure)
      throw failure
    } finally {
      reading?.close()
      // The caller stopped reading. Only usage can follow the finish reason, so after it the answer is
      // complete; before it, the call failed.
      if (call && !call.settled) {
        if (answer?.finishReason === undefined) {
          failure = stoppedReading()
          call.leave(failure)
          answered?.reject(failure)
        } else this.#succeed(call, answer, answered)
      }
      ended?.()
      traced?.end(call?.measured && answeredCall(call.measured, answer), failure)
    }
  }

  /** Records the answer, and returns it as the agent gets it. */
  #succeed(
    call: CallRecorder,
    answer: CompletionAccumulator,
    answered: Answered | undefined,
  ): ChatCompletion {
    const completion = answer.completion()
    call.succeed(answer.recorded(), { shown: completion.choices[0]?.message })
    this.#route.budget?.spend(completion.usage)
    answered?.resolve(completion)
    return completion
  }

  #urlOf({ trainable }: CallUse): URL {
    const { auxiliaryUrl } = this.#wire
    const isOwn = trainable || auxiliaryUrl === undefined
    return isOwn ? this.#route.endpoint.url : completionsUrl(auxiliaryUrl)
  }

  /** Sends the request, and waits for the beginning of the answer. */
  async #begin(sent: SentRequest, call: CallRecorder): Promise<BegunAnswer> {
    call.attempts += 1
    const { url, ...request } = sent
    const started = await this.#transport.post(url, request)
    if (isForeign(started)) throw await this.#foreign(started, sent)
    const reading = new PolicyAnswer(started, this.#route.limits)
    try {
      let chunks = await reading.next()
      // Events that only keep the connection alive are no answer.
      while (chunks.length === 0 && !reading.complete) chunks = await reading.next()
      return { reading, chunks }
    } catch (error) {
      reading.close()
      throw error
    }
  }

  /** Only until the answer starts: a retry after that would be a second sample. */
  #retry(
    failure: unknown,
    sent: SentRequest,
    call: CallRecorder,
    retries = 2,
  ): Promise<BegunAnswer> {
    const { signal } = sent
    const { paused, limits } = this.#route
    const isTransient = (error: unknown): boolean => this.#isTransient(error)
    return retryFailed(failure, () => this.#begin(sent, call), {
      retries,
      minDelayMs: 500,
      maxDelayMs: 8_000,
      signal,
      isRetryable: isTransient,
      pause: pausesOf(isTransient, { signal, paused, awaySeconds: limits.awaySeconds }),
    })
  }

  async #foreign(
    answer: HttpResponse,
    { url, headers, signal }: SentRequest,
  ): Promise<OsmosisError> {
    const text = await foreignText(answer, headers['authorization'])
    signal.throwIfAborted()
    return new OsmosisError('policy_stream_error', `The policy endpoint ${text} (${url.href})`)
  }

  #isWithdrawal(error: unknown): error is OsmosisError {
    return this.#wire.ownRoute === true && isGone(error) && !isAboutModel(error)
  }

  #isTransient(error: unknown): boolean {
    if (this.#isWithdrawal(error)) return false
    return isLostBeforeAnswer(error) || this.#transport.isTransient(error)
  }

  /** Ends the rollout, even if user code handles the error of the call. */
  #withdrawn(cause: OsmosisError): OsmosisError {
    const { status = 404, endpointMessage: said = '' } = cause
    const reason = new OsmosisError(
      'withdrawn',
      `The trainer withdrew the rollout: its own policy route answered ${status}${said === '' ? '.' : `: ${said}`}`,
      { cause, status },
    )
    this.#route.onWithdrawn?.(reason)
    return reason
  }

  #tracedCall(): TracedCall {
    const { model, stream } = this.#wire
    const { url } = this.#route.endpoint
    return { sampleId: this.#sample.id, endpoint: url, model, streams: stream }
  }

  #identity(): PolicyIdentity {
    const { rolloutId, apiKey } = this.#route
    return { rolloutId, sampleId: this.#sample.id, apiKey }
  }
}

type SentRequest = HttpRequest & { readonly url: URL }

/** An answer whose first chunks have arrived. */
interface BegunAnswer {
  readonly reading: PolicyAnswer
  readonly chunks: readonly ChatCompletionChunk[]
}

/** The only result of a generator that yields no chunks. */
function wholeAnswer({
  value,
}: IteratorResult<ChatCompletionChunk, ChatCompletion>): ChatCompletion {
  return value as ChatCompletion
}

function answeredCall(call: MeasuredCall, answer: CompletionAccumulator | undefined): EndedCall {
  if (call.error !== null || answer === undefined)
    return { call, responseId: undefined, message: undefined }
  const { id, choices } = answer.recorded()
  return { call, responseId: id || undefined, message: choices[0]?.message }
}

function isGone(error: unknown): error is OsmosisError {
  return (
    isOsmosisError(error) &&
    error.code === 'policy_http_error' &&
    (error.status === 404 || error.status === 410)
  )
}

/** Bytes, which are outside of the heap: V8 would copy a string while the policy answers. */
function bodyOf(settings: Omit<ChatCompletionRequest, 'messages'>, messagesJson: string): Buffer {
  return Buffer.from(`${JSON.stringify(settings).slice(0, -1)},"messages":${messagesJson}}`)
}

function assertOneAnswer({ messages, n }: ChatCompletionRequest): void {
  if (!Array.isArray(messages)) {
    throw new OsmosisError(
      'invalid_request',
      'A chat completions request needs messages: an array.',
    )
  }
  if (n === undefined || n === null || n === 1) return
  throw new OsmosisError(
    'invalid_request',
    `n must be 1, got ${JSON.stringify(n)}: make several calls for several answers, so that each is recorded.`,
  )
}

/** Adds chunks to an answer, unless the call was aborted, and returns them as the agent gets them. */
function chunkAdder(
  answer: CompletionAccumulator,
  call: CallRecorder,
  signal: AbortSignal,
): (chunk: ChatCompletionChunk) => ChatCompletionChunk {
  return (chunk) => {
    signal.throwIfAborted()
    call.firstChunk()
    try {
      return answer.add(chunk)
    } catch (cause) {
      throw unreadable('a chunk', chunk, cause)
    }
  }
}
