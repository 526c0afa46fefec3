import type { ErrorCategory } from '@osmosis/core'
import { type RolloutFailure, isCancellation } from '@osmosis/runtime'
import { Counter, Histogram, type Registry } from 'prom-client'

import { Gathered } from './gathered.ts'

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
const buckets = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400]

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
      buckets,
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
