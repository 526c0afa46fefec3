import { randomBytes } from 'node:crypto'

import { type EvaluationSummary, evaluationSummary } from '../analysis/figures/run-metrics.ts'
import { type ItemEvent, itemKey } from '../analysis/records/item-event.ts'
import { compareEvents } from '../store/run-files.ts'
import type { EvaluationStore } from '../store/write/run-store.ts'
import { readEarlierDuration } from '../store/write/snapshot-files.ts'
import type { RunCost } from './stop-conditions.ts'

/** The names of an evaluation in files and reports. */
export interface RunNames {
  /** See `assertRunName`. */
  readonly run: string
  readonly rollout: string
  readonly dataset: string
}

/** The state of an evaluation. */
export interface EvaluationSnapshot {
  /** 32 hexadecimal digits. */
  readonly id: string
  readonly names: RunNames
  readonly status: 'running' | 'incomplete' | 'finished'
  /** Why the evaluation stopped with pending items; null otherwise. */
  readonly incompleteReason: string | null
  readonly startedAt: Date
  /** Null while running. */
  readonly completedAt: Date | null
  /** Milliseconds of wall time. */
  readonly durationMs: number
  readonly rowCount: number
  /** Attempts per row. */
  readonly attempts: number
  /** Items that have not ended. */
  readonly pending: number
  /** Items that have ended, sorted by row, then attempt. */
  readonly items: readonly ItemEvent[]
  /** The model under evaluation, and its figures. */
  readonly model: { readonly name: string; readonly summary: EvaluationSummary }
}

/** The result of an evaluation. */
export interface EvaluationResult extends EvaluationSnapshot {
  readonly status: 'incomplete' | 'finished'
  readonly completedAt: Date
  /** The cost of all rollouts of the run; null when unknown, and without a store. */
  readonly cost: RunCost | null
  /** The folder of the run; null without a store. */
  readonly location: string | null
}

/** The fixed parameters of an evaluation. */
export interface EvaluationPlan {
  readonly names: RunNames
  readonly rowCount: number
  readonly attempts: number
  readonly passThreshold: number
  readonly scoreNames: readonly string[]
  readonly model: string
}

/** The items of an evaluation that have ended, and its duration. */
export class EvaluationState {
  readonly total: number
  readonly #plan: EvaluationPlan
  readonly #id: string
  readonly #startedAt: Date
  readonly #startedAtMs = performance.now()
  /** The last event of each item that has ended, by `itemKey`. */
  readonly events: ReadonlyMap<string, ItemEvent>
  /** Only without a store, which has all events. */
  readonly #own = new Map<string, ItemEvent>()
  /** Duration of earlier starts. */
  readonly #earlierMs: number
  #done: number
  #lastEnd = new Date()

  /** @param store - its events belong to the evaluation */
  constructor(plan: EvaluationPlan, store?: EvaluationStore) {
    this.#plan = plan
    this.total = plan.rowCount * plan.attempts
    this.#id = store?.manifest.local_run_id ?? randomBytes(16).toString('hex')
    this.#startedAt = new Date(store?.manifest.created_at ?? Date.now())
    this.#earlierMs = store === undefined ? 0 : readEarlierDuration(store.location)
    this.events = store?.events ?? this.#own
    this.#done = this.events.size
    let lastEnd = ''
    for (const { ended_at: endedAt } of this.events.values()) {
      if (endedAt > lastEnd) lastEnd = endedAt
    }
    if (lastEnd !== '') this.#lastEnd = new Date(lastEnd)
  }

  /** Items that have ended. */
  get done(): number {
    return this.#done
  }

  /** @param isNew - false for an item that has been run again */
  add(event: ItemEvent, isNew: boolean): void {
    if (this.events === this.#own) this.#own.set(itemKey(event), event)
    if (isNew) this.#done += 1
    this.#lastEnd = new Date()
  }

  /** The state while items are running. */
  running(): EvaluationSnapshot {
    return { ...this.#facts(), status: 'running', incompleteReason: null, completedAt: null }
  }

  /** The state when no item is running any more. */
  ended(
    stopReason: string | undefined,
  ): EvaluationSnapshot & { status: 'incomplete' | 'finished'; completedAt: Date } {
    const facts = this.#facts()
    // A reason to stop that arrived after all items had ended does not count.
    if (facts.pending === 0) {
      const completedAt = this.#lastEnd
      return { ...facts, status: 'finished', incompleteReason: null, completedAt }
    }
    const completedAt = new Date()
    const incompleteReason = stopReason ?? 'the evaluation ended early'
    return { ...facts, status: 'incomplete', incompleteReason, completedAt }
  }

  #facts(): Omit<EvaluationSnapshot, 'status' | 'incompleteReason' | 'completedAt'> {
    const { names, rowCount, attempts, passThreshold, scoreNames, model: name } = this.#plan
    const items = [...this.events.values()].toSorted(compareEvents)
    return {
      id: this.#id,
      names,
      startedAt: this.#startedAt,
      durationMs: this.#earlierMs + performance.now() - this.#startedAtMs,
      rowCount,
      attempts,
      pending: this.total - items.length,
      items,
      model: { name, summary: evaluationSummary(items, { attempts, passThreshold, scoreNames }) },
    }
  }
}
