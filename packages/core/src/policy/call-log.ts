import { errorMessage } from '../errors.ts'
import { beginningOf, errorTextBytes } from '../http/error-text.ts'
import { CallAliases } from './call-aliases.ts'
import type {
  AssistantMessage,
  ChatCompletion,
  ChatLogprobs,
  ChatMessage,
  ChatUsage,
} from './chat-completion.ts'
import {
  type AnswerOfAgent,
  ConversationTree,
  hasOtherInstructions,
  instructionsOf,
  messagesUpTo,
  pathTo,
  type MessageNode,
} from './conversation-tree.ts'
import { FailedCalls } from './failed-calls.ts'
import { agentUse, type CallAbout, versionIn } from './policy-wire.ts'

/** One model call of a sample. */
export interface PolicyCall {
  /** Id of the answer; null without an answer or id. */
  readonly id: string | null
  /** When the request was made. Milliseconds since the epoch. */
  readonly startedAt: number
  /** From the request to the end of the answer, retries included. Milliseconds. */
  readonly durationMs: number
  /** From the request to the first chunk of the answer. Milliseconds. */
  readonly timeToFirstChunkMs: number | null
  /** How often the request was sent. */
  readonly attempts: number
  /**
   * Whether the request continued a conversation of this sample unchanged, or was its first one. False where
   * history was rewritten or another conversation started: trainers split there. True for a call that is not
   * training data, which is part of no conversation.
   */
  readonly extendsPrevious: boolean
  /**
   * Where it does not: the index of the first message of the request that no earlier request or answer had in
   * this place. The number of messages, when the history was cut. Null for a call that extends.
   */
  readonly rewrittenAt: number | null
  /**
   * Whether it continues a conversation of the sample under other instructions (the system messages at its start), and
   * nothing else of it was rewritten: another agent took over, or the instructions changed.
   */
  readonly instructionsChanged: boolean
  readonly finishReason: string | null
  readonly usage: ChatUsage | null
  readonly model: string | null
  /**
   * Version of the policy's weights: the `metadata.weight_version` of SGLang, else the name of the model that answered,
   * else the model of the request, where that name is `policy-17` or ends in `/policy-17`. Null when unknown: other names
   * stay the same whatever the weights are.
   */
  readonly version: string | null
  /** What the call is for: `agent`, `title`, `summary`, `judge`, or another word of the workflow. */
  readonly purpose: string
  /** Name of the agent that made the call; null where its framework does not say it. */
  readonly agent: string | null
  /** Whether its answer is training data. */
  readonly trainable: boolean
  /**
   * The settings of the request that decide how the answer is sampled, by their names on the wire. Of what is not among them
   * nothing is known: the server has defaults of its own, vLLM those in the folder of its model.
   */
  readonly sampling: Readonly<Record<string, unknown>>
  readonly promptTokenIds: readonly number[] | null
  readonly completionTokenIds: readonly number[] | null
  readonly logprobs: ChatLogprobs | null
  /** Why the call failed; null when it was answered. */
  readonly error: string | null
  /**
   * Index of the answer in the sample's `trajectoryMessages`, be it that a rewritten history moved it there; null when
   * it is not in them.
   */
  readonly answerIndex: number | null
  /** The system messages at the start of the request; null where `trajectoryMessages` begin with them. */
  readonly instructions: readonly ChatMessage[] | null
}

/** A call without its place in a conversation. */
export type MeasuredCall = Omit<PolicyCall, 'answerIndex' | 'instructions'>

interface LoggedCall {
  /** The last message of the request, then the answer. */
  end: MessageNode
  readonly about: CallAbout
  /** See {@link PolicyCall.rewrittenAt}. */
  readonly rewrittenAt: number | null
  readonly instructionsChanged: boolean
  settled: MeasuredCall | undefined
  /** Whether its caller aborted it or stopped reading. */
  wasLeft: boolean
  /** Its place among the calls of the sample, counted from 1. */
  readonly number: number
  /** Of the caller; undefined when the call has ended. */
  signal: AbortSignal | undefined
}

/** A call that has ended. */
export interface SettledCall extends Readonly<LoggedCall> {
  readonly settled: MeasuredCall
}

/** All model calls under one sample id, with their messages. */
export class CallLog {
  /** What the agent of this sample calls tool calls of the policy. */
  readonly aliases = new CallAliases()
  /** The calls that failed, and that the agent has not recovered from. */
  readonly failures = new FailedCalls()
  readonly #tree: ConversationTree
  readonly #calls: LoggedCall[] = []
  #hasTrainable = false

  /** @param prompt - of the rollout, in chat completions form */
  constructor(prompt: readonly object[] = []) {
    this.#tree = new ConversationTree(this.aliases, prompt)
  }

  /**
   * Records the start of a call.
   *
   * @param signal - of the caller, who no longer waits for the answer when it is aborted
   */
  begin(messages: readonly ChatMessage[], about: CallAbout, signal?: AbortSignal): CallRecorder {
    const { end, known } = this.#tree.follow(messages)
    let extendsPrevious = true
    const path = pathTo(end)
    if (about.trainable) {
      extendsPrevious = !this.#hasTrainable
      this.#hasTrainable = true
      for (const node of path) {
        if (!node.isTip) continue
        node.isTip = false
        extendsPrevious = true
      }
    }
    const rewrittenAt = extendsPrevious ? null : known
    const instructionsChanged = !extendsPrevious && hasOtherInstructions(path)
    const logged: LoggedCall = {
      end,
      about,
      rewrittenAt,
      instructionsChanged,
      settled: undefined,
      wasLeft: false,
      number: this.failures.begin(),
      signal,
    }
    this.#calls.push(logged)
    return new CallRecorder(this.#tree, logged, this.failures)
  }

  /** Number of calls made, failed ones included. */
  get size(): number {
    return this.#calls.length
  }

  /** Whether a call is in progress. */
  get isBusy(): boolean {
    return this.#calls.some(({ settled }) => settled === undefined)
  }

  /** Whether a call that is training data is in progress, and its caller has not aborted it. */
  get isAwaited(): boolean {
    return this.#calls.some(
      ({ about, settled, signal }) =>
        about.trainable && settled === undefined && signal?.aborted !== true,
    )
  }

  /** The finished calls, in the order they were made. */
  get calls(): readonly SettledCall[] {
    return this.#calls.filter((call): call is SettledCall => call.settled !== undefined)
  }

  /** The answers that are training data, as the agent got them. */
  get answers(): readonly AssistantMessage[] {
    return this.#calls.flatMap(({ end, about, settled }) =>
      about.trainable && settled?.error === null ? end.shown : [],
    )
  }

  /**
   * Whether the policy answered a call that is training data, or failed to. A call that its caller aborted or stopped
   * reading says nothing of the policy.
   */
  get hasOutcome(): boolean {
    return this.#calls.some(
      ({ about, settled, wasLeft }) => about.trainable && settled !== undefined && !wasLeft,
    )
  }

  /**
   * The last message of each conversation, in the order of their latest calls. Most samples have one;
   * rewritten histories, sub-agents and repeated sampling make more. Those of calls that are not training data
   * come first, then those with another purpose, so that the last one belongs to the agent.
   */
  conversationEnds(): MessageNode[] {
    const ends: MessageNode[] = []
    const known = new Set<MessageNode>()
    const [agent, others, auxiliary] = [0, 1, 2].map((rank) =>
      this.#calls.filter(({ about }) => rankOf(about) === rank),
    )
    if (others?.length === 0 && auxiliary?.length === 0) return endsOf(this.#calls)
    for (const calls of [agent, others, auxiliary]) {
      const own = endsOf(calls ?? []).filter((end) => !known.has(end))
      for (const node of own.flatMap(pathTo)) known.add(node)
      ends.unshift(...own)
    }
    return ends
  }

  /**
   * The conversations of the agent, each with the places of its answers that are training data. An answer is in
   * the first conversation only, if several begin with it.
   */
  trainedConversations(): TrainedConversation[] {
    const trained = new Set<MessageNode>()
    for (const { end, about, settled } of this.#calls) {
      if (about.trainable && settled?.error === null) trained.add(end)
    }
    const parts = endsOf(this.#calls.filter(({ about }) => about.trainable)).map((end) => {
      const answers = pathTo(end).flatMap((node, at) => (trained.delete(node) ? [at] : []))
      return { messages: messagesUpTo(end), answers }
    })
    return parts.filter(({ answers }) => answers.length > 0)
  }
}

/** Which calls a sample's conversation is made of, if it has them: the agent's own, else other training data. */
function rankOf({ trainable, purpose }: CallAbout): number {
  if (!trainable) return 2
  return purpose === agentUse.purpose ? 0 : 1
}

/** The ends of calls, without those that another call continued. */
function endsOf(calls: readonly LoggedCall[]): MessageNode[] {
  const ends = new Set<MessageNode>()
  for (const { end } of calls) {
    ends.delete(end)
    ends.add(end)
  }
  for (const end of ends) {
    for (let at = end.parent; at !== undefined; at = at.parent) ends.delete(at)
  }
  return [...ends]
}

/** A conversation of a sample as training data. */
export interface TrainedConversation {
  readonly messages: readonly ChatMessage[]
  /** Places of the messages that the policy sampled here, and that are training data. */
  readonly answers: readonly number[]
}

/** Records one call. */
export class CallRecorder {
  readonly #tree: ConversationTree
  readonly #logged: LoggedCall
  readonly #failures: FailedCalls
  readonly #startedAt = Date.now()
  readonly #start = performance.now()
  #firstChunkMs: number | null = null
  /** How often the request has been sent. */
  attempts = 0

  constructor(tree: ConversationTree, logged: LoggedCall, failures: FailedCalls) {
    this.#tree = tree
    this.#logged = logged
    this.#failures = failures
  }

  get settled(): boolean {
    return this.measured !== undefined
  }

  /** Undefined until the call has ended. */
  get measured(): MeasuredCall | undefined {
    return this.#logged.settled
  }

  /** The request's messages as a JSON array, with the policy's answers word for word. Not to be called after the call. */
  messagesJson(): string {
    // `+` copies nothing yet: the whole body is copied once, when it is sent.
    let json = ''
    for (const node of pathTo(this.#logged.end)) json += json === '' ? node.json : `,${node.json}`
    return `[${json}]`
  }

  firstChunk(): void {
    this.#firstChunkMs ??= performance.now() - this.#start
  }

  /** @param completion - as the policy gave it */
  succeed(completion: ChatCompletion, agent: AnswerOfAgent = {}): void {
    const [choice] = completion.choices
    if (choice === undefined) return
    const logged = this.#logged
    logged.end = this.#tree.answer(logged.end, choice.message, agent)
    this.#settle(completion, null)
    this.#failures.succeed(logged)
  }

  fail(error: unknown): void {
    this.#settle(undefined, beginningOf(errorMessage(error), errorTextBytes))
    if (!this.#logged.wasLeft) this.#failures.fail(error, this.#logged)
  }

  /** As `fail`, of a call whose caller aborted it or stopped reading. */
  leave(error: unknown): void {
    this.#logged.wasLeft = true
    this.fail(error)
  }

  #settle(completion: ChatCompletion | undefined, error: string | null): void {
    const choice = completion?.choices[0]
    const { about } = this.#logged
    this.#logged.signal = undefined
    if (about.trainable) this.#logged.end.isTip = true
    const model = completion?.model || null
    this.#logged.settled = {
      startedAt: this.#startedAt,
      durationMs: performance.now() - this.#start,
      timeToFirstChunkMs: this.#firstChunkMs,
      attempts: this.attempts,
      extendsPrevious: this.#logged.rewrittenAt === null,
      rewrittenAt: this.#logged.rewrittenAt,
      instructionsChanged: this.#logged.instructionsChanged,
      id: completion?.id || null,
      finishReason: choice?.finish_reason ?? null,
      usage: completion?.usage ?? null,
      model,
      version: weightVersion(completion) ?? versionIn(model) ?? about.model,
      purpose: about.purpose,
      agent: about.agent ?? null,
      trainable: about.trainable,
      sampling: about.sampling,
      promptTokenIds: completion?.prompt_token_ids ?? null,
      completionTokenIds: choice?.token_ids ?? null,
      logprobs: choice?.logprobs ?? null,
      error,
    }
  }
}

/** SGLang calls weights that were never updated `default`. */
function weightVersion(completion: ChatCompletion | undefined): string | null {
  const version: unknown = completion?.metadata?.weight_version
  return typeof version === 'string' && version !== 'default' ? version : null
}

/** The messages of one sample as they went over the wire, in chat completions form. */
export interface WireTranscript {
  /** The conversation of the latest call, with its answer if there was one. */
  readonly messages: ChatMessage[]
  /** Other conversations of the sample, oldest first: rewritten histories, sub-agents, repeated sampling. */
  readonly otherConversations: ChatMessage[][]
  /** Whether a call did not continue a conversation unchanged. */
  readonly historyRewritten: boolean
  readonly calls: readonly PolicyCall[]
}

/** The transcript of a call log; undefined when no call was made. */
export function wireTranscript(log: CallLog): WireTranscript | undefined {
  const ends = log.conversationEnds()
  const latest = ends.at(-1)
  if (latest === undefined) return undefined
  const path = pathTo(latest)
  const places = new Map(path.map((node, index) => [node.copyOf ?? node, index]))
  const shown = jsonOf(instructionsOf(path))
  const calls = log.calls.map(({ end, settled }): PolicyCall => {
    // A failed call ends with its request.
    const answerIndex = settled.error === null ? (places.get(end) ?? null) : null
    if (answerIndex === null || path[answerIndex] === end) {
      return { ...settled, answerIndex, instructions: null }
    }
    const own = jsonOf(instructionsOf(pathTo(end)))
    const instructions = own === shown ? null : (JSON.parse(own) as ChatMessage[])
    return { ...settled, answerIndex, instructions }
  })
  return {
    messages: messagesUpTo(latest),
    otherConversations: ends.slice(0, -1).map(messagesUpTo),
    historyRewritten: calls.some(({ extendsPrevious }) => !extendsPrevious),
    calls,
  }
}

function jsonOf(nodes: readonly MessageNode[]): string {
  return `[${nodes.map(({ json }) => json).join(',')}]`
}
