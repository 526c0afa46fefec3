import type { ErrorCategory, PolicyCall } from '@osmosis/core'
import { type RolloutFailure, isCancellation } from '@osmosis/protocol'
import { Counter, Histogram, type Registry } from 'prom-client'

/** Batches this small are garbage before V8 promotes them. */
const batchSize = 100

/**
 * Collects what is to be counted, and counts it at a scrape or when a batch is full: counting is cheap in a
 * loop, and costs several times as much between other work.
 */
class Gathered<T> {
  readonly #count: (one: T) => void
  #gathered: T[] = []

  /** @param count - must not throw */
  constructor(count: (one: T) => void) {
    this.#count = count
  }

  add(one: T): void {
    if (this.#gathered.push(one) >= batchSize) this.count()
  }

  /** Pass it as `collect` of the metrics that count. */
  readonly count = (): void => {
    const gathered = this.#gathered
    this.#gathered = []
    for (const one of gathered) this.#count(one)
  }
}

const phases = ['queue', 'workflow', 'grading'] as const

/** What a rollout is doing: waiting for a slot, running its workflow or loop, being graded. */
export type MeasuredPhase = (typeof phases)[number]

/** How long a rollout was in its phases. */
export type PhaseSeconds = Readonly<Partial<Record<MeasuredPhase, number>>>

/** An ended phase. */
interface PhaseTime {
  readonly phase: MeasuredPhase
  readonly seconds: number
}

/** How a rollout ended. */
type RolloutOutcomeName = 'success' | 'failure' | 'cancelled'

const categories = [
  'timeout',
  'validation_error',
  'http_error',
  'agent_error',
] as const satisfies readonly ErrorCategory[]

/** Seconds: rollouts take from moments to hours. */
const phaseBuckets = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400]

/** How rollouts ended, and how long their phases took. */
export class RolloutFigures {
  readonly #ended: Counter
  readonly #durations: Gathered<PhaseTime>

  constructor(registry: Registry) {
    const registers = [registry]
    this.#ended = new Counter({
      name: 'osmosis_rollouts_ended_total',
      help: 'Ended rollouts by outcome (success, failure or cancelled), category of the error, and last phase.',
      labelNames: ['outcome', 'category', 'phase'],
      registers,
    })
    // All combinations that can occur: Prometheus sees no increase to a first value.
    for (const phase of ['workflow', 'grading'] as const) {
      this.#ended.inc({ outcome: 'success', category: 'none', phase }, 0)
    }
    for (const phase of phases) {
      for (const category of categories) this.#ended.inc({ outcome: 'failure', category, phase }, 0)
      this.#ended.inc({ outcome: 'cancelled', category: 'agent_error', phase }, 0)
    }
    this.#durations = new Gathered(({ phase, seconds }) => {
      if (Number.isFinite(seconds)) durations.observe({ phase }, seconds)
    })
    const durations = new Histogram({
      name: 'osmosis_rollout_phase_seconds',
      help: 'Time of rollouts in the queue, in their workflow or loop, and in grading, which includes the wait for a grader slot and for the rest of the group.',
      labelNames: ['phase'],
      buckets: phaseBuckets,
      registers,
      collect: this.#durations.count,
    })
  }

  /**
   * Counts a rollout that ran in another process.
   *
   * @param seconds - the duration of each phase, in the order of the phases
   */
  count(failure: Pick<RolloutFailure, 'category' | 'cause'> | null, seconds: PhaseSeconds): void {
    let last: MeasuredPhase = 'queue'
    for (const [phase, took] of Object.entries(seconds) as [MeasuredPhase, number][]) {
      this.#durations.add({ phase, seconds: took })
      last = phase
    }
    this.#ended.inc({ outcome: outcomeOf(failure), category: categoryOf(failure), phase: last })
  }

  /** Starts the clock of a rollout, in the queue. */
  begin(): RolloutClock {
    return new RolloutClock(this.#ended, this.#durations)
  }
}

/** Measures the phases of one rollout, and counts its outcome. */
export class RolloutClock {
  readonly #ended: Counter
  readonly #durations: Gathered<PhaseTime>
  #phase: MeasuredPhase = 'queue'
  #since: number | undefined = performance.now()
  #over = false

  constructor(ended: Counter, durations: Gathered<PhaseTime>) {
    this.#ended = ended
    this.#durations = durations
  }

  /** The rollout continues with this phase. */
  enter(phase: MeasuredPhase): void {
    this.leave()
    this.#phase = phase
    this.#since = performance.now()
  }

  /** Ends the phase without starting the next one. */
  leave(): void {
    if (this.#since === undefined) return
    const seconds = (performance.now() - this.#since) / 1000
    this.#durations.add({ phase: this.#phase, seconds })
    this.#since = undefined
  }

  /** Ends the rollout. Returns its outcome at the first call, then undefined. */
  end(failure: Pick<RolloutFailure, 'category' | 'cause'> | null): RolloutOutcomeName | undefined {
    if (this.#over) return undefined
    this.#over = true
    this.leave()
    const outcome = outcomeOf(failure)
    this.#ended.inc({
      outcome,
      category: categoryOf(failure),
      phase: this.#phase,
    })
    return outcome
  }
}

function categoryOf(failure: Pick<RolloutFailure, 'category'> | null): string {
  return failure?.category ?? 'none'
}

function outcomeOf(failure: Pick<RolloutFailure, 'cause'> | null): RolloutOutcomeName {
  if (failure === null) return 'success'
  return isCancellation(failure.cause) ? 'cancelled' : 'failure'
}

/** The part of a model call that is counted. */
export interface CountedCall extends Pick<
  PolicyCall,
  'durationMs' | 'timeToFirstChunkMs' | 'attempts' | 'finishReason' | 'error'
> {
  readonly usage: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null
}

/** Seconds: from a small model next door to a long answer of a busy one. */
const callBuckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]

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
      buckets: callBuckets,
      registers,
      collect,
    })
    this.#firstChunks = new Histogram({
      name: 'osmosis_policy_first_chunk_seconds',
      help: 'Time of model calls from the request to the first chunk of the answer.',
      buckets: callBuckets,
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
