import type { PolicyCall } from '@osmosis/core'
import { Counter, Histogram, type Registry } from 'prom-client'

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

/** The model calls of all rollouts; those of a rollout are counted when its workflow has ended. */
export class PolicyFigures {
  readonly #calls: Counter
  readonly #retries: Counter
  readonly #tokens: Counter
  readonly #durations: Histogram
  readonly #firstChunks: Histogram

  constructor(registry: Registry) {
    const registers = [registry]
    this.#calls = new Counter({
      name: 'osmosis_policy_calls_total',
      help: 'Model calls by how they ended: the finish reason (other: an unknown one, or none), or error.',
      labelNames: ['outcome'],
      registers,
    })
    this.#retries = new Counter({
      name: 'osmosis_policy_retries_total',
      help: 'Requests of model calls that were sent again.',
      registers,
    })
    this.#tokens = new Counter({
      name: 'osmosis_policy_tokens_total',
      help: 'Tokens that the policy read (input) and wrote (output), as it says itself.',
      labelNames: ['direction'],
      registers,
    })
    this.#durations = new Histogram({
      name: 'osmosis_policy_call_seconds',
      help: 'Time of model calls from the request to the end of the answer, retries included.',
      buckets,
      registers,
    })
    this.#firstChunks = new Histogram({
      name: 'osmosis_policy_first_chunk_seconds',
      help: 'Time of model calls from the request to the first chunk of the answer.',
      buckets,
      registers,
    })
    for (const direction of ['input', 'output']) this.#tokens.inc({ direction }, 0)
  }

  count({ durationMs, timeToFirstChunkMs, attempts, ...call }: CountedCall): void {
    const { error, finishReason, usage } = call
    const reason = knownReasons.has(finishReason ?? '') ? finishReason : 'other'
    this.#calls.inc({ outcome: error === null ? (reason ?? 'other') : 'error' })
    if (attempts > 1) this.#retries.inc(attempts - 1)
    this.#durations.observe(durationMs / 1000)
    if (timeToFirstChunkMs !== null) this.#firstChunks.observe(timeToFirstChunkMs / 1000)
    this.#addTokens('input', usage?.prompt_tokens)
    this.#addTokens('output', usage?.completion_tokens)
  }

  /** Endpoints say what they like, and a counter takes no negative number. */
  #addTokens(direction: 'input' | 'output', tokens: unknown): void {
    if (typeof tokens !== 'number' || !Number.isFinite(tokens) || tokens <= 0) return
    this.#tokens.inc({ direction }, tokens)
  }
}
