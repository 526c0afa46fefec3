import { errorMessage } from '@osmosis/core'
import { isPassingStatus } from '@osmosis/core/http'
import {
  CallLog,
  wireTranscript,
  type CallRecorder,
  type WireTranscript,
  type ChatCompletion,
  type ChatMessage,
  type ChatUsage,
  PassingAnswer,
  type AnswerListener,
} from '@osmosis/core/policy'

import type { PolicyModel, PolicyRequest } from './policy-model.ts'
import { systemicFailure } from './watch-policy.ts'

/** Hears how one model call went. One of the last three is called, once. */
export interface CallListener extends AnswerListener {
  /** The policy did not answer but refuse; `text` is the beginning of what it said. */
  onRefusal(status: number, text: string): void
}

const longestText = 2000

/**
 * Lets `listen` hear the model calls of a policy; undefined for a call that is of no interest. Answers
 * reach their callers byte for byte, and are heard before their end is. Whoever made `policy` still
 * closes it.
 */
export function overhear(
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
        // That nobody waits any longer says nothing about the policy.
        if (request.signal.aborted) listener.onBroken(errorMessage(error))
        else listener.onRefusal(500, errorMessage(error))
        throw error
      }
      const { status, headers } = answer
      const heard = answer.ok
        ? new PassingAnswer(headers.get('content-type') ?? '', listener)
        : new PassingRefusal((text) => listener.onRefusal(status, text))
      if (answer.body === null) heard.end()
      const body = answer.body && ReadableStream.from(passing(answer.body, heard))
      return new Response(body, { status, headers })
    },
  }
}

type Heard = Pick<PassingAnswer, 'add' | 'end' | 'breakOff'>

async function* passing(
  bytes: AsyncIterable<Uint8Array>,
  heard: Heard,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of bytes) {
      heard.add(piece)
      yield piece
    }
    heard.end()
  } catch (error) {
    heard.breakOff(`The answer of the policy broke off: ${errorMessage(error)}`)
    throw error
  } finally {
    // Of no effect unless the caller has gone away.
    heard.breakOff('The agent did not read the answer to its end.')
  }
}

/** An answer with an error status, as text. */
class PassingRefusal implements Heard {
  readonly #report: (text: string) => void
  readonly #decoder = new TextDecoder()
  #text = ''
  #over = false

  constructor(report: (text: string) => void) {
    this.#report = report
  }

  add(piece: Uint8Array): void {
    if (this.#text.length < longestText) this.#text += this.#decoder.decode(piece, { stream: true })
  }

  end(): void {
    if (this.#over) return
    this.#over = true
    this.#report(this.#text.slice(0, longestText))
  }

  breakOff(): void {
    this.end()
  }
}

/** How a policy let a rollout down. */
export interface PolicyTrouble {
  /** Whether no later call could be answered either: wrong key, unknown model, no endpoint there. */
  readonly isLasting: boolean
  /** Whether the rate of calls was too high for it (429). */
  readonly isRateLimit: boolean
  readonly message: string
}

/** What went over the wire under one sample id. */
export interface RecordedTranscript extends WireTranscript {
  /** Of the latest request that had any, as it was sent; null without one. */
  readonly tools: readonly unknown[] | null
  /** The `user-agent` of the latest call that had one, which names its framework; null without one. */
  readonly userAgent: string | null
}

/** What the model calls of one rollout said, as far as they have come. */
export interface RolloutRecording {
  /** By sample id, in the order of the first calls; calls without an id are under `''`. */
  samples(): ReadonlyMap<string, RecordedTranscript>
  /**
   * Trouble that lasts, else that of the latest call, when the policy was overloaded or down (429,
   * 5xx). Null when it answered.
   */
  readonly trouble: PolicyTrouble | null
  /** Forgets all of it; later calls are not recorded. */
  end(): void
}

/** A policy whose model calls can be recorded. */
export interface RecordedPolicy extends PolicyModel {
  /** Records the model calls of a rollout from now on, until that is ended. */
  record(rolloutId: string): RolloutRecording
}

/** Options of {@link recordPolicy}. */
export interface RecordPolicyOptions {
  /** Keeps the token ids and logprobs that answers carry; they are large. Default: false. */
  readonly tokenIds?: boolean
  /** What the model costs. Default: what the endpoint says itself, if it does. */
  readonly price?: ModelPrice | undefined
}

/**
 * Records conversations and measurements of model calls while answers pass to their callers, byte for
 * byte. Any rollout server will do: nothing is asked of it. Whoever made `policy` still closes it.
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

/** Characters: the rest of a longer one is no name of a framework. */
const mostOfUserAgent = 100

class Recording implements RolloutRecording {
  readonly #logs = new Map<string, CallLog>()
  readonly #tools = new Map<string, readonly unknown[]>()
  readonly #userAgents = new Map<string, string>()
  readonly #options: RecordPolicyOptions
  readonly #forget: () => void
  #lasting: PolicyTrouble | null = null
  #passing: PolicyTrouble | null = null

  constructor(options: RecordPolicyOptions, forget: () => void) {
    this.#options = options
    this.#forget = forget
  }

  get trouble(): PolicyTrouble | null {
    return this.#lasting ?? this.#passing
  }

  begin({ sampleId, body, headers }: PolicyRequest): CallListener {
    const call = this.#beginCall(sampleId, body['messages'])
    const { tools } = body
    if (Array.isArray(tools) && tools.length > 0) this.#tools.set(sampleId, tools)
    const userAgent = headers['user-agent']
    if (userAgent) this.#userAgents.set(sampleId, userAgent.slice(0, mostOfUserAgent))
    return {
      onFirstChunk: () => call?.firstChunk(),
      onAnswer: (completion, hasOwnIds) => {
        this.#passing = null
        const { tokenIds = false, price } = this.#options
        const cost = costOf(completion.usage, price)
        const kept = tokenIds ? completion : withoutTokenIds(completion)
        call?.succeed(withCost(kept, cost), hasOwnIds)
      },
      onBroken: (reason) => call?.fail(new Error(reason)),
      onRefusal: (status, text) => {
        const message = systemicFailure(status, text)
        if (message !== null) this.#lasting ??= { isLasting: true, isRateLimit: false, message }
        const said = `The policy answered ${status}: ${text}`
        const isRateLimit = status === 429
        this.#passing = isPassingStatus(status)
          ? { isLasting: false, isRateLimit, message: said }
          : null
        call?.fail(new Error(said))
      },
    }
  }

  samples(): ReadonlyMap<string, RecordedTranscript> {
    const transcripts = [...this.#logs].flatMap(([id, log]): [string, RecordedTranscript][] => {
      const transcript = wireTranscript(log)
      if (transcript === undefined) return []
      const [tools = null, userAgent = null] = [this.#tools.get(id), this.#userAgents.get(id)]
      return [[id, { ...transcript, tools, userAgent }]]
    })
    return new Map(transcripts)
  }

  end(): void {
    this.#forget()
  }

  /** Undefined for messages that are none: the policy judges them, and they are no conversation. */
  #beginCall(sampleId: string, messages: unknown): CallRecorder | undefined {
    const log = this.#logs.get(sampleId) ?? new CallLog()
    try {
      const call = log.begin(messages as ChatMessage[])
      call.attempts = 1
      this.#logs.set(sampleId, log)
      return call
    } catch {
      return undefined
    }
  }
}

function withoutTokenIds(completion: ChatCompletion): ChatCompletion {
  const { prompt_token_ids: _promptIds, choices, ...rest } = completion
  const plain = choices.map(({ token_ids: _ids, ...choice }) => ({ ...choice, logprobs: null }))
  return { ...rest, choices: plain }
}

/** What a model costs, in US dollars per million tokens. */
export interface ModelPrice {
  /** Of prompt tokens. */
  readonly input: number
  /** Of completion tokens, thinking included. */
  readonly output: number
  /** Of prompt tokens that were in the provider's cache. Null: as `input`. */
  readonly cached: number | null
}

/**
 * What one answer cost, in US dollars: what the endpoint says itself (`cost_usd` or `cost` of its
 * usage), else its tokens by the price. Null when that is not known.
 */
function costOf(usage: ChatUsage | undefined, price: ModelPrice | undefined): number | null {
  if (usage === undefined) return null
  const said = [usage['cost_usd'], usage['cost']].find((cost) => amount(cost) !== null)
  if (said !== undefined) return amount(said)
  const { prompt_tokens: prompt, completion_tokens: completion } = usage
  if (price === undefined || amount(prompt) === null || amount(completion) === null) return null
  const details = usage['prompt_tokens_details'] as { cached_tokens?: unknown } | null | undefined
  const cached = Math.min(amount(details?.cached_tokens) ?? 0, prompt)
  const { input, output } = price
  const dollars = (prompt - cached) * input + cached * (price.cached ?? input) + completion * output
  return dollars / 1_000_000
}

/** The answer with its cost in the usage, where that is known: documents take it from there. */
function withCost(completion: ChatCompletion, cost: number | null): ChatCompletion {
  const { usage } = completion
  if (cost === null || usage === undefined) return completion
  return { ...completion, usage: { ...usage, cost_usd: cost } }
}

function amount(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null
}
