import { isOsmosisError, OsmosisError } from '../errors.ts'
import type { EgressPolicy } from '../http/egress/egress-policy.ts'
import { foreignText, isForeign } from '../http/error-body.ts'
import { shownUrl } from '../http/error-text.ts'
import type { EndpointNames, HttpRequest } from '../http/exchange.ts'
import { isAboutModel } from '../http/refused-call.ts'
import type { HttpResponse } from '../http/response.ts'
import { retryFailed } from '../http/retry.ts'
import type { Transport } from '../http/transport.ts'
import { untilAborted } from '../http/waiting.ts'
import type { RolloutTrace } from '../tracing/rollout-trace.ts'
import type { RolloutBudget } from '../workflow/rollout-limits.ts'
import type { PolicyLimits } from './answer/answer-limits.ts'
import { isLostBeforeAnswer, PolicyAnswer } from './answer/policy-answer.ts'
import type { CallLog } from './call-log.ts'
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
} from './chat-completion.ts'
import { OngoingCall } from './ongoing-call.ts'
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
} from './policy-stream.ts'
import {
  aboutCall,
  callUse,
  policyHeaders,
  type PolicyWire,
  wireRequest,
  type WireSettings,
  wireSettings,
} from './policy-wire.ts'

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
    // The only result of a generator that yields no chunks.
    calls
      .answerTo(request, options)
      .next()
      .then(({ value }) => value as ChatCompletion)
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
    const { signal, budget } = this.#route
    const { failures } = this.#sample.log
    const call = new OngoingCall({ signal, own: options.signal, budget, answered, failures })
    try {
      const answer = await this.#begin(call, request, options)
      do {
        for (let chunk = answer.read(); chunk !== undefined; chunk = answer.read()) {
          call.signal.throwIfAborted()
          call.recorder?.firstChunk()
          if (answered !== undefined) yield chunk
        }
      } while (await answer.more())
      // An aborted connection can look like an ordinary end of the answer.
      call.signal.throwIfAborted()
      return call.succeed(answer)
    } catch (error) {
      throw call.fail(this.#isWithdrawal(error) ? this.#withdrawn(error) : error)
    } finally {
      await call.leave()
    }
  }

  /** Records the request, and sends it until an answer begins. */
  async #begin(
    call: OngoingCall,
    request: ChatCompletionRequest,
    options: PolicyCallOptions,
  ): Promise<PolicyAnswer> {
    const { rolloutId, apiKey, endpoint, names, limits, budget, ...route } = this.#route
    const { id: sampleId, log, trace } = this.#sample
    const { signal } = call
    signal.throwIfAborted()
    const use = callUse(options)
    call.use = use
    assertOneAnswer(request)
    budget?.begin()
    const settings = wireRequest(this.#wire, request)
    const recorder = log.begin(request.messages, aboutCall(settings, use), options.signal)
    call.recorder = recorder
    const { model, stream: streams, auxiliaryUrl } = this.#wire
    call.trace = trace?.call(
      { sampleId, endpoint: endpoint.url, model, streams },
      { ...settings, messages: request.messages },
    )
    const isOwn = use.trainable || auxiliaryUrl === undefined
    const url = isOwn ? endpoint.url : completionsUrl(auxiliaryUrl)
    call.release = await route.callBegins?.({ endpoint: url.href, signal })
    if (route.beforeCall) await untilAborted(signal, route.beforeCall)
    const headers = policyHeaders(
      { rolloutId, sampleId, apiKey },
      { ...options.headers, ...call.trace?.headers() },
      use,
    )
    const sent = { headers, body: bodyOf(settings, recorder.messagesJson()), signal, names }
    const { aliases } = log
    const send = async (): Promise<PolicyAnswer> => {
      recorder.attempts += 1
      const answer = new PolicyAnswer(await this.#post(url, sent), limits, { request, aliases })
      call.answer = answer
      await answer.begin()
      return answer
    }
    return send().catch((error: unknown) => this.#retry(error, send, signal, options.retries))
  }

  async #post(url: URL, request: HttpRequest): Promise<HttpResponse> {
    const started = await this.#transport.post(url, request)
    if (!isForeign(started)) return started
    const text = await foreignText(started, request.headers['authorization'])
    request.signal.throwIfAborted()
    throw new OsmosisError('policy_stream_error', `The policy endpoint ${text} (${shownUrl(url)})`)
  }

  /** Only until the answer starts: a retry after that would be a second sample. */
  #retry(
    failure: unknown,
    send: () => Promise<PolicyAnswer>,
    signal: AbortSignal,
    retries = 2,
  ): Promise<PolicyAnswer> {
    const { paused, limits } = this.#route
    const isTransient = (error: unknown): boolean => this.#isTransient(error)
    return retryFailed(failure, send, {
      retries,
      minDelayMs: 500,
      maxDelayMs: 8_000,
      signal,
      isRetryable: isTransient,
      pause: pausesOf(isTransient, { signal, paused, awaySeconds: limits.awaySeconds }),
    })
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
