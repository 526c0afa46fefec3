import type { BaseMessage } from '@langchain/core/messages'
import {
  OsmosisError,
  type RolloutContext,
  type RolloutSample,
  type SampleSource,
  toRolloutSample,
} from '@osmosis/core'

/** A model call: what the policy was asked, and its answer. */
export interface RecordedCall {
  readonly prompt: readonly BaseMessage[]
  readonly signal: AbortSignal | undefined
  /** Its place among the calls of the sample, counted from 1. */
  readonly number: number
  answer: BaseMessage | undefined
}

/** What is known of a sample besides its wire transcript: the conversation of its latest call, and failures. */
export class ConversationRecord implements SampleSource {
  readonly requiresModelCall = true
  readonly #open = new Set<RecordedCall>()
  #latest: RecordedCall | undefined
  #answered: RecordedCall | undefined
  /** `startedBefore`: how many calls had started when it failed. */
  #failed: { error: Error; startedBefore: number } | undefined
  #started = 0

  /** Notes a call that is about to be made. */
  begin(prompt: readonly BaseMessage[], signal: AbortSignal | undefined): RecordedCall {
    const call = { prompt, signal, number: (this.#started += 1), answer: undefined }
    this.#open.add(call)
    this.#latest = call
    return call
  }

  succeed(call: RecordedCall, answer: BaseMessage): void {
    call.answer = answer
    if (call.number > (this.#answered?.number ?? 0)) this.#answered = call
    // Only a call that started after the failure can recover from it.
    if (call.number > (this.#failed?.startedBefore ?? 0)) this.#failed = undefined
  }

  fail({ signal }: RecordedCall, error: unknown): void {
    if (signal?.aborted) return
    this.#failed = {
      error: error instanceof Error ? error : new Error(String(error)),
      startedBefore: this.#started,
    }
  }

  /** To be called when the call is over, also when its stream was left. */
  end(call: RecordedCall): void {
    this.#open.delete(call)
  }

  getSample(id: string): RolloutSample {
    const { prompt = [], answer } = this.#conversation ?? {}
    const messages = answer === undefined ? prompt : [...prompt, answer]
    return toRolloutSample({ id, messages: messages.map(plainMessage) })
  }

  /** LangChain turns an error inside a tool into a text, and streams need not be read. */
  unnoticedError(): Error | undefined {
    if (this.#failed) return this.#failed.error
    const isAnswering = [...this.#open].some(({ signal }) => !signal?.aborted)
    // Without an answer a reward would have nothing that it is for.
    const wasLeft =
      this.#latest !== undefined && this.#answered === undefined && !this.#latest.signal?.aborted
    if (!isAnswering && !wasLeft) return undefined
    return new OsmosisError(
      'rollout_ended',
      isAnswering
        ? 'The workflow returned while the policy was answering: read streams to their end, and await everything the workflow starts.'
        : 'The only answer of the policy was not read to its end, so there is nothing to reward: read streams to their end.',
    )
  }

  /** A call that repeats an answered one, and failed, is no conversation of its own. */
  get #conversation(): RecordedCall | undefined {
    const [latest, answered] = [this.#latest, this.#answered]
    if (latest === undefined || answered === undefined || latest.answer) return latest
    const known = [...answered.prompt, answered.answer]
    return latest.prompt.every((message, index) => message === known[index]) ? answered : latest
  }
}

/** A message in the form that LangChain accepts in place of its classes, without what is in `sample.calls`. */
function plainMessage(message: BaseMessage): unknown {
  const { content, name, id, additional_kwargs } = message
  const { role, tool_calls, invalid_tool_calls, tool_call_id, status } = message as Partial<{
    role: string
    tool_calls: unknown[]
    invalid_tool_calls: unknown[]
    tool_call_id: string
    status: string
  }>
  const fields = {
    role: role ?? roles[message.type] ?? message.type,
    content,
    name,
    id,
    tool_calls: unlessEmpty(tool_calls),
    invalid_tool_calls: unlessEmpty(invalid_tool_calls),
    tool_call_id,
    status,
    additional_kwargs: Object.keys(additional_kwargs).length > 0 ? additional_kwargs : undefined,
  }
  return JSON.parse(JSON.stringify(fields, storable)) as unknown
}

const roles: Readonly<Record<string, string>> = { human: 'user', ai: 'assistant' }

function unlessEmpty(list: unknown[] | undefined): unknown[] | undefined {
  return list?.length ? list : undefined
}

function storable(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value
}

type Records = Map<string, ConversationRecord>

// On globalThis, so that two installed copies of this package share the samples of a rollout.
const storageKey = Symbol.for('osmosis.langchain.records')
const holder = globalThis as { [storageKey]?: WeakMap<RolloutContext, Records> }
const rollouts = (holder[storageKey] ??= new WeakMap<RolloutContext, Records>())

/**
 * The record of a sample, registered with the rollout when it is new. Models of one name are one sample: in
 * LangChain's programs they are made wherever they are needed.
 *
 * @throws OsmosisError with code `duplicate_sample` when something else has the name, or `invalid_id`
 */
export function recordOf(rollout: RolloutContext, name: string): ConversationRecord {
  let records = rollouts.get(rollout)
  if (records === undefined)
    rollouts.set(rollout, (records = new Map<string, ConversationRecord>()))
  const known = records.get(name)
  if (known) return known
  const record = new ConversationRecord()
  rollout.registerSampleSource(name, record)
  records.set(name, record)
  return record
}
