import { isDeepStrictEqual } from 'node:util'

import {
  OsmosisError,
  type RolloutContext,
  type RolloutSample,
  type SampleSource,
  toRolloutSample,
} from '@osmosis/core'

import type { AdkContent } from './adk-types.ts'

/** A model call: what the policy was asked, and its answer. */
export interface RecordedTurn {
  readonly prompt: readonly AdkContent[]
  readonly signal: AbortSignal | undefined
  /** Its place among the calls of the sample, counted from 1. */
  readonly number: number
  answer: AdkContent | undefined
}

/** What is known of a sample besides its wire transcript: the conversation of its latest call, and failures. */
export class ContentsRecord implements SampleSource {
  readonly requiresModelCall = true
  readonly #open = new Set<RecordedTurn>()
  #latest: RecordedTurn | undefined
  #answered: RecordedTurn | undefined
  /** `startedBefore`: how many calls had started when it failed. */
  #failed: { error: Error; startedBefore: number } | undefined
  #started = 0

  /** Notes a call that is about to be made. */
  begin(prompt: readonly AdkContent[], signal: AbortSignal | undefined): RecordedTurn {
    const call = { prompt, signal, number: (this.#started += 1), answer: undefined }
    this.#open.add(call)
    this.#latest = call
    return call
  }

  succeed(call: RecordedTurn, answer: AdkContent): void {
    call.answer = answer
    if (call.number > (this.#answered?.number ?? 0)) this.#answered = call
    // Only a call that started after the failure can recover from it.
    if (call.number > (this.#failed?.startedBefore ?? 0)) this.#failed = undefined
  }

  fail({ signal }: RecordedTurn, error: unknown): void {
    if (signal?.aborted) return
    this.#failed = {
      error: error instanceof Error ? error : new Error(String(error)),
      startedBefore: this.#started,
    }
  }

  /** To be called when the call is over, also when its stream was left. */
  end(call: RecordedTurn): void {
    this.#open.delete(call)
  }

  getSample(id: string): RolloutSample {
    const { prompt = [], answer } = this.#conversation ?? {}
    const messages = answer === undefined ? prompt : [...prompt, answer]
    return toRolloutSample({ id, messages: structuredClone(messages) })
  }

  /** The ADK turns errors into events, and its generators need not be read. */
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
  get #conversation(): RecordedTurn | undefined {
    const [latest, answered] = [this.#latest, this.#answered]
    if (latest === undefined || answered === undefined || latest.answer) return latest
    const known = [...answered.prompt, answered.answer]
    return isDeepStrictEqual(latest.prompt, known.slice(0, latest.prompt.length))
      ? answered
      : latest
  }
}

type Records = Map<string, ContentsRecord>

// On globalThis, so that two installed copies of this package share the samples of a rollout.
const storageKey = Symbol.for('osmosis.google-adk.records')
const holder = globalThis as { [storageKey]?: WeakMap<RolloutContext, Records> }
const rollouts = (holder[storageKey] ??= new WeakMap<RolloutContext, Records>())

/**
 * The record of a sample, registered with the rollout when it is new. Models of one name are one sample.
 *
 * @throws OsmosisError with code `duplicate_sample` when something else has the name, or `invalid_id`
 */
export function recordOf(rollout: RolloutContext, name: string): ContentsRecord {
  let records = rollouts.get(rollout)
  if (records === undefined) rollouts.set(rollout, (records = new Map<string, ContentsRecord>()))
  const known = records.get(name)
  if (known) return known
  const record = new ContentsRecord()
  rollout.registerSampleSource(name, record)
  records.set(name, record)
  return record
}
