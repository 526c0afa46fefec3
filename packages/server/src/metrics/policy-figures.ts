import type { PolicyCall } from '@osmosis/core'
import { Counter, Histogram, type Registry } from 'prom-client'

import { Gathered } from './gathered.ts'

/** The part of a model call that is counted. */
export interface CountedCall extends Pick<
  PolicyCall,
  'durationMs' | 'timeToFirstChunkMs' | 'attempts' | 'finishReason' | 'error'
> {
  readonly usage: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null
}

/** Seconds: from a small model next door to a long answer of a busy one. */
const buckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]

/** Finish reasons with a label of their own; endpoints may invent others. */
const knownReasons = new Set(['stop', 'length', 'tool_calls', 'content_filter'])

/** A model call as it is counted. Unknown seconds are NaN, unknown tokens 0. */
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
      help: 'Model calls by outcome: the finish reason (other: unknown or missing), or error.',
      labelNames: ['outcome'],
      registers,
      collect,
    })
    this.#retries = new Counter({
      name: 'osmosis_policy_retries_total',
      help: 'Retries of model calls.',
      registers,
      collect,
    })
    this.#tokens = new Counter({
      name: 'osmosis_policy_tokens_total',
      help: 'Tokens that the policy read (input) and wrote (output), as it reports them.',
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
    // Prometheus sees no increase to a first value.
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

/** Endpoints may report anything, and a counter rejects negative numbers. */
function positive(reported: unknown): number {
  return typeof reported === 'number' && Number.isFinite(reported) && reported > 0 ? reported : 0
}
