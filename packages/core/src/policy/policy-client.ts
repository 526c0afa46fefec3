import { isOsmosisError, OsmosisError } from '../errors.ts'
import type { EgressPolicy } from '../http/egress-policy.ts'
import { isForeign } from '../http/readable-answer.ts'
import { foreignText } from '../http/refusal-text.ts'
import { retryFailed } from '../http/retry.ts'
import type { HttpAnswer, HttpRequest } from '../http/exchange.ts'
import type { Transport } from '../http/transport.ts'
import { untilAborted } from '../http/until-aborted.ts'
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
} from './chat-completion.ts'
import type { EndedCall } from '../tracing/call-attributes.ts'
import type { CallTrace, RolloutTrace, TracedCall } from '../tracing/rollout-trace.ts'
import type { PolicyLimits } from './answer-limits.ts'
import { PolicyAnswer, unreadable } from './answer-stream.ts'
import type { CallLog, CallRecorder, MeasuredCall } from './call-log.ts'
import { CompletionAccumulator } from './completion-accumulator.ts'
import { policyHeaders, type PolicyIdentity } from './headers.ts'
import { type PausedCalls, pausesOf } from './paused-endpoint.ts'
import type { PolicyAddress } from './policy-endpoint.ts'
import { createPolicyFetch } from './policy-fetch.ts'
import {
  type Answered,
  type PolicyCallOptions,
  type PolicyStream,
  policyStream,
  stoppedReading,
} from './policy-stream.ts'
import { type PolicyWire, wireRequest, type WireSettings, wireSettings } from './policy-wire.ts'
import { policyTransport } from './transport.ts'

/**
 * The way from one sample to the policy: every model call of every framework goes through here.
 * Requests carry the rollout's identity, failures before the answer are retried, an answer that
 * breaks off is an error, and all of it is logged under the sample.
 */
export interface PolicyClient {
  /** Base URL of the policy, without `/chat/completions`. */
  readonly baseUrl: string
  /**
   * Asks the policy and hands out the chunks of its answer as they come, then the whole of it. While
   * the endpoint answers 429 or 503 with `Retry-After` the call waits as it is asked to, a minute at
   * a time; that uses up no retry.
   *
   * @throws OsmosisError with code `policy_http_error`, `policy_unreachable`,
   * `policy_stream_error`, `egress_refused` or `invalid_request`; the signal's reason when aborted; the deadline or
   * cancellation of the rollout (`timeout`, `cancelled`, `withdrawn`, `rollout_ended`)
   */
  stream(request: ChatCompletionRequest, options?: PolicyCallOptions): PolicyStream
  /** Asks the policy and resolves with its whole answer. Throws what `stream` throws. */
  complete(request: ChatCompletionRequest, options?: PolicyCallOptions): Promise<ChatCompletion>
  /**
   * The same, as a `fetch` for SDKs that take one. It serves `POST …/chat/completions` only, and
   * passes on one header of the SDK, the `user-agent` that names it: the others are filled from the
   * environment.
   */
  readonly fetch: typeof globalThis.fetch
}

/** A model call that is about to leave. */
export interface BeginningModelCall {
  /** URL that is asked: that of the policy, with `/chat/completions`. */
  readonly endpoint: string
  /** Aborted when nobody waits for the call any more; the observer rejects then. */
  readonly signal: AbortSignal
}

/** How a rollout asks its policy, whichever of its samples does. */
export interface PolicyRoute {
  readonly rolloutId: string
  readonly endpoint: PolicyAddress
  readonly apiKey: string | undefined
  /** How the endpoint wants to be asked. */
  readonly wire: PolicyWire | undefined
  readonly egress: EgressPolicy
  readonly limits: Required<PolicyLimits>
  readonly signal: AbortSignal
  /** Awaited before each call leaves, and before {@link PolicyRoute.beforeCall}. */
  readonly callBegins: ((call: BeginningModelCall) => Promise<() => void>) | undefined
  /** Awaited before each call leaves. */
  readonly beforeCall: (() => Promise<void>) | undefined
  /** Calls that wait as the endpoint asks are in it meanwhile. */
  readonly paused: PausedCalls
  /** Called when the endpoint says that the trainer withdrew the rollout, which is then to be ended. */
  readonly onWithdrawn: ((reason: OsmosisError) => void) | undefined
}

/** What a client needs to know of its sample. */
export interface PolicyClientSample {
  readonly id: string
  readonly log: CallLog
  /** Where calls are traced; undefined when nobody wants traces. */
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
 * The model calls of one sample. A class, because a generator function that was made for each client, and
 * called, would stay in memory with all it can reach until a full garbage collection.
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
   * @param answered - settles with the answer, for somebody who wants to see its chunks as well; without it
   * none is handed out, because that costs more than reading them
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
      call = log.begin(request.messages)
      const settings = wireRequest(this.#wire, request)
      traced = trace?.call(this.#tracedCall(), { ...settings, messages: request.messages })
      const headers = traced ? { ...options.headers, ...traced.headers() } : options.headers
      const { endpoint, callBegins, beforeCall } = route
      if (callBegins) ended = await callBegins({ endpoint: endpoint.url.href, signal })
      if (beforeCall) await untilAborted(signal, beforeCall)
      const body = bodyOf(settings, call.messagesJson())
      const sent = { headers: policyHeaders(this.#identity(), headers), body, signal }
      let started: HttpAnswer
      try {
        started = await this.#send(sent, call)
      } catch (error) {
        started = await this.#askAgain(error, sent, call, options.retries)
      }
      if (isForeign(started)) throw await this.#foreign(started, sent)
      reading = new PolicyAnswer(started, route.limits)
      answer = new CompletionAccumulator()
      const take = taker(answer, call, signal)
      while (!reading.complete) {
        const chunks = await reading.next()
        if (answered === undefined) chunks.forEach(take)
        else {
          for (const chunk of chunks) {
            take(chunk)
            yield chunk
          }
        }
      }
      // An aborted connection can look like an ordinary end of the answer.
      signal.throwIfAborted()
      assertComplete(answer)
      call.succeed(answer.completion())
      const completion = answer.completion()
      answered?.resolve(completion)
      return completion
    } catch (error) {
      const reason = this.#isWithdrawal(error) ? this.#withdrawn(error) : error
      // Whatever an abort looks like by the time it gets here, its reason says what happened.
      failure = signal.aborted ? signal.reason : reason
      answered?.reject(failure)
      call?.fail(failure)
      throw failure
    } finally {
      reading?.close()
      // No verdict yet: the caller stopped reading. Behind the finish reason only usage can
      // follow, so what was read is the answer; before it, nobody knows the answer.
      if (call && !call.settled) {
        if (answer?.finishReason === undefined) {
          failure = stoppedReading()
          call.fail(failure)
          answered?.reject(failure)
        } else {
          call.succeed(answer.completion())
          answered?.resolve(answer.completion())
        }
      }
      ended?.()
      traced?.end(call?.measured && answeredCall(call.measured, answer), failure)
    }
  }

  #send(sent: HttpRequest, call: CallRecorder): Promise<HttpAnswer> {
    call.attempts += 1
    return this.#transport.post(this.#route.endpoint.url, sent)
  }

  /** Only until the answer begins: asking again after that would be a second sample. */
  #askAgain(
    failure: unknown,
    sent: HttpRequest,
    call: CallRecorder,
    retries = 2,
  ): Promise<HttpAnswer> {
    const { signal } = sent
    const mayPass = (error: unknown): boolean => this.#mayPass(error)
    return retryFailed(failure, () => this.#send(sent, call), {
      retries,
      minDelayMs: 500,
      maxDelayMs: 8_000,
      signal,
      isRetryable: mayPass,
      pause: pausesOf(mayPass, { signal, paused: this.#route.paused }),
    })
  }

  async #foreign(answer: HttpAnswer, { headers, signal }: HttpRequest): Promise<OsmosisError> {
    const said = await foreignText(answer, headers['authorization'])
    signal.throwIfAborted()
    const { href } = this.#route.endpoint.url
    return new OsmosisError('policy_stream_error', `The policy endpoint ${href} ${said}`)
  }

  /** Where the route is the rollout's own. */
  #isWithdrawal(error: unknown): error is OsmosisError {
    return this.#wire.ownRoute === true && isGone(error)
  }

  #mayPass(error: unknown): boolean {
    return !this.#isWithdrawal(error) && this.#transport.isPassing(error)
  }

  /** The rollout ends with it, whatever user code makes of the call that failed. */
  #withdrawn(cause: OsmosisError): OsmosisError {
    const { status = 404 } = cause
    const reason = new OsmosisError(
      'withdrawn',
      `The trainer withdrew the rollout: the policy route that is its own answered ${status}.`,
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

/** Of a generator that nobody wants to see the chunks of: it hands out nothing before its end. */
function wholeAnswer({
  value,
}: IteratorResult<ChatCompletionChunk, ChatCompletion>): ChatCompletion {
  return value as ChatCompletion
}

function answeredCall(call: MeasuredCall, answer: CompletionAccumulator | undefined): EndedCall {
  if (call.error !== null || answer === undefined)
    return { call, responseId: undefined, message: undefined }
  const { id, choices } = answer.completion()
  return { call, responseId: id || undefined, message: choices[0]?.message }
}

function isGone(error: unknown): error is OsmosisError {
  return (
    isOsmosisError(error) &&
    error.code === 'policy_http_error' &&
    (error.status === 404 || error.status === 410)
  )
}

/** Bytes, outside of the heap: a text would be held, and moved about, as long as the policy takes. */
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
    `n must be 1, got ${JSON.stringify(n)}: ask several times for several answers, so that each is recorded.`,
  )
}

/** Takes the chunks of an answer, unless the call was aborted. */
function taker(
  answer: CompletionAccumulator,
  call: CallRecorder,
  signal: AbortSignal,
): (chunk: ChatCompletionChunk) => void {
  return (chunk) => {
    signal.throwIfAborted()
    call.firstChunk()
    try {
      // Only what the answer is made of is looked at, and that has to have the right shape.
      answer.add(chunk)
    } catch (cause) {
      throw unreadable('a chunk', chunk, cause)
    }
  }
}

function assertComplete(answer: CompletionAccumulator): void {
  if (answer.sawChoice) return
  throw new OsmosisError(
    'policy_stream_error',
    'The policy sent no choices; an empty answer is not made up.',
  )
}
