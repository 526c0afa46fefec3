import { randomBytes } from 'node:crypto'

import type { ItemEvent } from '../analysis/item-event.ts'
import { evaluationMetrics } from '../analysis/evaluation-metrics.ts'
import type { RunStore } from '../store/run-store.ts'
import type { EvaluationSnapshot, ModelResult, RunNames } from './evaluation-result.ts'
import { earlierDurationMs } from './run-snapshots.ts'
import type { ModelTag } from './item-runner.ts'

/** What stays the same during an evaluation. */
export interface EvaluationPlan {
  readonly names: RunNames
  readonly rowCount: number
  readonly attempts: number
  readonly passThreshold: number
  readonly scoreNames: readonly string[]
  readonly model: string
  /** Undefined when there is none. */
  readonly baseline: string | undefined
}

/** The items of an evaluation that have ended, and the clock it runs by. */
export class EvaluationState {
  readonly total: number
  readonly #plan: EvaluationPlan
  readonly #id: string
  readonly #startedAt: Date
  readonly #startedAtMs = performance.now()
  readonly #store: RunStore | undefined
  /** Of an evaluation without a store, which has them all. */
  readonly #events: ItemEvent[] = []
  /** How long earlier starts were at it. */
  readonly #earlierMs: number
  #done: number
  #lastEnd = new Date()

  /** @param store - what it has already belongs to the evaluation */
  constructor(plan: EvaluationPlan, store?: RunStore) {
    this.#plan = plan
    this.total = plan.rowCount * plan.attempts * (plan.baseline === undefined ? 1 : 2)
    this.#id = store?.manifest.local_run_id ?? randomBytes(16).toString('hex')
    this.#startedAt = new Date(store?.manifest.created_at ?? Date.now())
    this.#earlierMs = store === undefined ? 0 : earlierDurationMs(store.location)
    this.#store = store
    this.#done = store?.events.size ?? 0
    let lastEnd = ''
    for (const { ended_at: endedAt } of store?.events.values() ?? []) {
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
    if (this.#store === undefined) this.#events.push(event)
    if (isNew) this.#done += 1
    this.#lastEnd = new Date()
  }

  /** How it stands now, while items are still to come. */
  running(): EvaluationSnapshot {
    return { ...this.#facts(), status: 'running', incompleteReason: null, completedAt: null }
  }

  /** How it stands when nothing runs any more. */
  ended(
    stopReason: string | undefined,
  ): EvaluationSnapshot & { status: 'incomplete' | 'finished'; completedAt: Date } {
    const facts = this.#facts()
    // A reason to stop that came when all was done has stopped nothing.
    if (facts.pending === 0) {
      const completedAt = this.#lastEnd
      return { ...facts, status: 'finished', incompleteReason: null, completedAt }
    }
    const completedAt = new Date()
    const incompleteReason = stopReason ?? 'the evaluation ended early'
    return { ...facts, status: 'incomplete', incompleteReason, completedAt }
  }

  #facts(): Omit<EvaluationSnapshot, 'status' | 'incompleteReason' | 'completedAt'> {
    const { names, rowCount, attempts, model, baseline } = this.#plan
    const items = this.#sorted()
    return {
      id: this.#id,
      names,
      startedAt: this.#startedAt,
      durationMs: this.#earlierMs + performance.now() - this.#startedAtMs,
      rowCount,
      attempts,
      pending: this.total - items.length,
      items,
      model: this.#resultOf('primary', model, items),
      baseline: baseline === undefined ? null : this.#resultOf('baseline', baseline, items),
    }
  }

  #sorted(): ItemEvent[] {
    return [...(this.#store?.events.values() ?? this.#events)].toSorted(
      (a, b) =>
        a.row_index - b.row_index ||
        a.run_index - b.run_index ||
        (a.model_tag === 'baseline' ? 1 : -1),
    )
  }

  #resultOf(tag: ModelTag, name: string, items: readonly ItemEvent[]): ModelResult {
    const { attempts: nRuns, passThreshold, scoreNames } = this.#plan
    const options = { modelTag: tag, nRuns, passThreshold, scoreNames }
    return { tag, name, metrics: evaluationMetrics(items, options) }
  }
}
