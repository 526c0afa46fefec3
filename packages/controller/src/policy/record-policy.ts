import { errorMessage } from '@osmosis/core'
import { isTransientStatus } from '@osmosis/core/http'
import {
  aboutCall,
  CallLog,
  type CallUse,
  callUse,
  wireTranscript,
  type CallRecorder,
  type TrainedConversation,
  type WireTranscript,
  type ChatCompletion,
  type ChatMessage,
  type ChatUsage,
  PassingAnswer,
  type AnswerListener,
} from '@osmosis/core/policy'

import type { PolicyModel, PolicyRequest } from './policy-model.ts'
import { saysAway, systemicFailure } from './watch-policy.ts'

/** Receives the result of one model call: one call of `onAnswer`, `onBroken` or `onRefusal`. */
interface CallListener extends AnswerListener {
  /** The connection broke in the middle of the answer, and not because its caller left. The result follows. */
  onLost?(reason: string): void
  /** The policy answered with an error status; `text` is the start of its body. */
  onRefusal(status: number, text: string): void
}

const maxTextLength = 2000

/**
 * Reports the model calls of a policy to the listeners that `listen` returns; undefined for a call to ignore.
 * Callers get the answers byte for byte; listeners get a result before the caller sees the end of the answer.
 * The creator of `policy` closes it.
 */
function overhear(
  policy: PolicyModel,
  listen: (request: PolicyRequest) => CallListener | undefined,
): PolicyModel {
  return {
    name: policy.name,
    async respond(request) {
      const listener = listen(request)
      if (listener === undefined) return policy.respond(request)
      let answer: Response
      try {
        answer = await policy.respond(request)
      } catch (error) {
        // A call that its caller aborted is not a failure of the policy.
        if (request.signal.aborted) listener.onBroken(errorMessage(error))
        else listener.onRefusal(500, errorMessage(error))
        throw error
      }
      const { status, headers } = answer
      const observed = answer.ok
        ? new PassingAnswer(headers.get('content-type') ?? '', listener)
        : new PassingRefusal((text) => listener.onRefusal(status, text))
      if (answer.body === null) observed.end()
      const lost = (reason: string): void => {
        if (!request.signal.aborted) listener.onLost?.(reason)
      }
      const body = answer.body && ReadableStream.from(passing(answer.body, observed, lost))
      return new Response(body, { status, headers })
    },
  }
}

type Observed = Pick<PassingAnswer, 'add' | 'end' | 'breakOff'>

async function* passing(
  bytes: AsyncIterable<Uint8Array>,
  observed: Observed,
  lost: (reason: string) => void,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of bytes) {
      observed.add(piece)
      yield piece
    }
    observed.end()
  } catch (error) {
    const reason = `The answer of the policy broke off: ${errorMessage(error)}`
    lost(reason)
    observed.breakOff(reason)
    throw error
  } finally {
    // Has an effect only if the caller disconnected.
    observed.breakOff('The agent did not read the answer to its end.')
  }
}

/** An answer with an error status, as text. */
class PassingRefusal implements Observed {
  readonly #report: (text: string) => void
  readonly #decoder = new TextDecoder()
  #text = ''
  #over = false

  constructor(report: (text: string) => void) {
    this.#report = report
  }

  add(piece: Uint8Array): void {
    if (this.#text.length < maxTextLength)
      this.#text += this.#decoder.decode(piece, { stream: true })
  }

  end(): void {
    if (this.#over) return
    this.#over = true
    this.#report(this.#text.slice(0, maxTextLength))
  }

  breakOff(): void {
    this.end()
  }
}

/** How a policy failed a rollout. */
export interface PolicyTrouble {
  /** Whether later calls would fail, too: wrong key, unknown model, no endpoint there. */
  readonly isLasting: boolean
  /** Whether the rate of calls was too high for it (429). */
  readonly isRateLimit: boolean
  /** Whether it may be back soon: it could not be reached, loads its model, or ended in the middle of an answer. */
  readonly isAway: boolean
  readonly message: string
}

/** The messages of one sample as they went over the wire. */
export interface RecordedTranscript extends WireTranscript {
  /** The tools of the latest request that had any; null without. */
  readonly tools: readonly unknown[] | null
  /** The latest `user-agent`, which names the framework; null without. */
  readonly userAgent: string | null
  /** The conversations as training data: one unless history was rewritten or agents share the sample. */
  readonly trained: readonly TrainedConversation[]
}

/** The recorded model calls of one rollout. */
export interface RolloutRecording {
  /** By sample id, in the order of the first calls; calls without an id are under `''`. */
  samples(): ReadonlyMap<string, RecordedTranscript>
  /**
   * A lasting failure, or else the overload or failure of the latest call (429, 5xx, no connection or one that broke in the
   * middle of the answer). Null when that was answered.
   */
  readonly trouble: PolicyTrouble | null
  /** Deletes the recording; later calls are not recorded. */
  end(): void
}

/** A policy whose model calls can be recorded. */
export interface RecordedPolicy extends PolicyModel {
  /** Starts a recording of the model calls of a rollout. */
  record(rolloutId: string): RolloutRecording
}

/** Options of {@link recordPolicy}. */
export interface RecordPolicyOptions {
  /** Whether to record token ids and logprobs, which are large. Default: false. */
  readonly tokenIds?: boolean
  /** Price of the model. Default: the cost that the endpoint reports, if it does. */
  readonly price?: ModelPrice | undefined
}

/**
 * Records conversations and measurements of model calls. Callers get the answers byte for byte. Works with any
 * rollout server. The creator of `policy` closes it.
 */
export function recordPolicy(
  policy: PolicyModel,
  options: RecordPolicyOptions = {},
): RecordedPolicy {
  const recordings = new Map<string, Recording>()
  return {
    ...overhear(policy, (request) => recordings.get(request.rolloutId)?.begin(request)),
    record(rolloutId) {
      const recording = new Recording(options, () => recordings.delete(rolloutId))
      recordings.set(rolloutId, recording)
      return recording
    },
  }
}

/** Characters. */
const maxUserAgentLength = 100

/** A trouble of which nothing is known but its message. */
const plainTrouble = { isLasting: false, isRateLimit: false, isAway: false }

class Recording implements RolloutRecording {
  readonly #logs = new Map<string, CallLog>()
  readonly #tools = new Map<string, readonly unknown[]>()
  readonly #userAgents = new Map<string, string>()
  readonly #options: RecordPolicyOptions
  readonly #remove: () => void
  #lasting: PolicyTrouble | null = null
  #passing: PolicyTrouble | null = null

  constructor(options: RecordPolicyOptions, remove: () => void) {
    this.#options = options
    this.#remove = remove
  }

  get trouble(): PolicyTrouble | null {
    return this.#lasting ?? this.#passing
  }

  begin({ sampleId, body, headers }: PolicyRequest): CallListener {
    const call = this.#beginCall(sampleId, body, useOf(headers))
    const { tools } = body
    if (Array.isArray(tools) && tools.length > 0) this.#tools.set(sampleId, tools)
    const userAgent = headers['user-agent']
    if (userAgent) this.#userAgents.set(sampleId, userAgent.slice(0, maxUserAgentLength))
    return {
      onFirstChunk: () => call?.firstChunk(),
      onAnswer: (completion, hasOwnIds) => {
        this.#passing = null
        const { tokenIds = false, price } = this.#options
        const cost = costOf(completion.usage, price)
        const recorded = tokenIds ? completion : withoutTokenIds(completion)
        call?.succeed(withCost(recorded, cost), { hasOwnIds })
      },
      onLost: (reason) => {
        // A server that ends in the middle of an answer may be back when the rollout has ended.
        this.#passing = { ...plainTrouble, isAway: true, message: reason }
      },
      onBroken: (reason) => call?.fail(new Error(reason)),
      onRefusal: (status, text) => {
        const message = systemicFailure(status, text)
        const isLasting = message !== null
        const refusal = `The policy answered ${status}: ${text}`
        if (saysAway(status, text)) {
          this.#passing = { ...plainTrouble, isLasting, isAway: true, message: message ?? refusal }
        } else {
          if (isLasting) this.#lasting ??= { ...plainTrouble, isLasting, message }
          const isRateLimit = status === 429
          this.#passing = isTransientStatus(status)
            ? { ...plainTrouble, isRateLimit, message: refusal }
            : null
        }
        call?.fail(new Error(refusal))
      },
    }
  }

  samples(): ReadonlyMap<string, RecordedTranscript> {
    const transcripts = [...this.#logs].flatMap(([id, log]): [string, RecordedTranscript][] => {
      const transcript = wireTranscript(log)
      if (transcript === undefined) return []
      const [tools = null, userAgent = null] = [this.#tools.get(id), this.#userAgents.get(id)]
      return [[id, { ...transcript, tools, userAgent, trained: log.trainedConversations() }]]
    })
    return new Map(transcripts)
  }

  end(): void {
    this.#remove()
  }

  /** Undefined for invalid messages, which the policy has to refuse. */
  #beginCall(
    sampleId: string,
    body: PolicyRequest['body'],
    use: CallUse,
  ): CallRecorder | undefined {
    const log = this.#logs.get(sampleId) ?? new CallLog()
    try {
      const call = log.begin(body['messages'] as ChatMessage[], aboutCall(body, use))
      call.attempts = 1
      this.#logs.set(sampleId, log)
      return call
    } catch {
      return undefined
    }
  }
}

/** Headers of other servers that are not understood say nothing. */
function useOf(headers: PolicyRequest['headers']): CallUse {
  try {
    return callUse({ headers })
  } catch {
    return callUse({})
  }
}

function withoutTokenIds(completion: ChatCompletion): ChatCompletion {
  const { prompt_token_ids: _promptIds, choices, ...rest } = completion
  const plain = choices.map(({ token_ids: _ids, ...choice }) => ({ ...choice, logprobs: null }))
  return { ...rest, choices: plain }
}

/** Prices of a model, in US dollars per million tokens. */
export interface ModelPrice {
  /** Prompt tokens. */
  readonly input: number
  /** Completion tokens, thinking included. */
  readonly output: number
  /** Prompt tokens from the provider's cache. Null: as `input`. */
  readonly cached: number | null
}

/**
 * The cost of one answer, in US dollars: as the endpoint reports it (`cost_usd` or `cost` of its usage), or
 * computed from the price. Null when it is unknown.
 */
function costOf(usage: ChatUsage | undefined, price: ModelPrice | undefined): number | null {
  if (usage === undefined) return null
  const reported = [usage['cost_usd'], usage['cost']].find((cost) => amount(cost) !== null)
  if (reported !== undefined) return amount(reported)
  const { prompt_tokens: prompt, completion_tokens: completion } = usage
  if (price === undefined || amount(prompt) === null || amount(completion) === null) return null
  const details = usage['prompt_tokens_details'] as { cached_tokens?: unknown } | null | undefined
  const cached = Math.min(amount(details?.cached_tokens) ?? 0, prompt)
  const { input, output } = price
  const dollars = (prompt - cached) * input + cached * (price.cached ?? input) + completion * output
  return dollars / 1_000_000
}

/** Adds a known cost to the usage of an answer, where documents read it. */
function withCost(completion: ChatCompletion, cost: number | null): ChatCompletion {
  const { usage } = completion
  if (cost === null || usage === undefined) return completion
  return { ...completion, usage: { ...usage, cost_usd: cost } }
}

function amount(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null
}
