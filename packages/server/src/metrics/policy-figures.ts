import type { PolicyCall } from '@osmosis/core'
import { Counter, Histogram, type Registry } from 'prom-client'

import { Gathered } from './gathered.ts'

/** What is counted of a model call. */
export interface CountedCall extends Pick<
  PolicyCall,
  'durationMs' | 'timeToFirstChunkMs' | 'attempts' | 'finishReason' | 'error'
> {
  readonly usage: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null
}

/** Seconds: from a small model next door to a long answer of a busy one. */
const buckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]

/** Finish reasons by themselves; endpoints may invent others. */
const knownReasons = new Set(['stop', 'length', 'tool_calls', 'content_filter'])

/** A model call as far as it is counted: seconds that it did not tell are NaN, tokens 0. */
interface CallFigures {
  readonly outcome: string
  readonly retries: number
  readonly seconds: number
  readonly firstChunkSeconds: number
  readonly input: number
  readonly output: number
}

/** The model calls of all rollouts; those of a rollout are counted when its workflow has ended. */
export class PolicyFigures {
  readonly #calls: Counter
  readonly #retries: Counter
  readonly #tokens: Counter
  readonly #durations: Histogram
  readonly #firstChunks: Histogram
  readonly #gathered = new Gathered<CallFigures>((call) => this.#count(call))

  constructor(registry: Registry) {
    const registers = [registry]
    const collect = this.#gathered.count
    this.#calls = new Counter({
      name: 'osmosis_policy_calls_total',
      help: 'Model calls by how they ended: the finish reason (other: an unknown one, or none), or error.',
      labelNames: ['outcome'],
      registers,
      collect,
    })
    this.#retries = new Counter({
      name: 'osmosis_policy_retries_total',
      help: 'Requests of model calls that were sent again.',
      registers,
      collect,
    })
    this.#tokens = new Counter({
      name: 'osmosis_policy_tokens_total',
      help: 'Tokens that the policy read (input) and wrote (output), as it says itself.',
      labelNames: ['direction'],
      registers,
      collect,
    })
    this.#durations = new Histogram({
      name: 'osmosis_policy_call_seconds',
      help: 'Time of model calls from the request to the end of the answer, retries included.',
      buckets,
      registers,
      collect,
    })
    this.#firstChunks = new Histogram({
      name: 'osmosis_policy_first_chunk_seconds',
      help: 'Time of model calls from the request to the first chunk of the answer.',
      buckets,
      registers,
      collect,
    })
    // Prometheus sees no increase to a first figure.
    for (const outcome of [...knownReasons, 'other', 'error']) this.#calls.inc({ outcome }, 0)
    for (const direction of ['input', 'output']) this.#tokens.inc({ direction }, 0)
  }

  count({ durationMs, timeToFirstChunkMs, attempts, ...call }: CountedCall): void {
    const { error, finishReason, usage } = call
    const reason = knownReasons.has(finishReason ?? '') ? finishReason : 'other'
    this.#gathered.add({
      outcome: error === null ? (reason ?? 'other') : 'error',
      retries: positive(attempts - 1),
      seconds: durationMs / 1000,
      firstChunkSeconds: timeToFirstChunkMs === null ? Number.NaN : timeToFirstChunkMs / 1000,
      input: positive(usage?.prompt_tokens),
      output: positive(usage?.completion_tokens),
    })
  }

  #count(call: CallFigures): void {
    const { outcome, retries, seconds, firstChunkSeconds, input, output } = call
    this.#calls.inc({ outcome })
    this.#retries.inc(retries)
    if (Number.isFinite(seconds)) this.#durations.observe(seconds)
    if (Number.isFinite(firstChunkSeconds)) this.#firstChunks.observe(firstChunkSeconds)
    if (input > 0) this.#tokens.inc({ direction: 'input' }, input)
    if (output > 0) this.#tokens.inc({ direction: 'output' }, output)
  }
}

/** Endpoints say what they like, and a counter takes no negative number. */
function positive(said: unknown): number {
  return typeof said === 'number' && Number.isFinite(said) && said > 0 ? said : 0
}
