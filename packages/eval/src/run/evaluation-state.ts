import { randomBytes } from 'node:crypto'

import { computeMetrics } from '../metrics/compute-metrics.ts'
import type { EvaluationSnapshot, ModelResult, RunNames } from './evaluation-result.ts'
import type { ItemRecord } from './item-record.ts'
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

/** The records of an evaluation and the clock it runs by. */
export class EvaluationState {
  readonly total: number
  readonly #plan: EvaluationPlan
  readonly #id = randomBytes(16).toString('hex')
  readonly #startedAt = new Date()
  readonly #startedAtMs = performance.now()
  readonly #records: ItemRecord[] = []

  constructor(plan: EvaluationPlan) {
    this.#plan = plan
    this.total = plan.rowCount * plan.attempts * (plan.baseline === undefined ? 1 : 2)
  }

  add(record: ItemRecord): void {
    this.#records.push(record)
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
    const completedAt = new Date()
    // A reason to stop that came when all was done has stopped nothing.
    if (facts.pending === 0) {
      return { ...facts, status: 'finished', incompleteReason: null, completedAt }
    }
    const incompleteReason = stopReason ?? 'the evaluation ended early'
    return { ...facts, status: 'incomplete', incompleteReason, completedAt }
  }

  #facts(): Omit<EvaluationSnapshot, 'status' | 'incompleteReason' | 'completedAt'> {
    const { names, rowCount, attempts, model, baseline } = this.#plan
    const records = this.#records.toSorted(
      (a, b) =>
        a.rowIndex - b.rowIndex || a.runIndex - b.runIndex || (a.model === 'primary' ? -1 : 1),
    )
    return {
      id: this.#id,
      names,
      startedAt: this.#startedAt,
      durationMs: performance.now() - this.#startedAtMs,
      rowCount,
      attempts,
      pending: this.total - records.length,
      records,
      model: this.#resultOf('primary', model, records),
      baseline: baseline === undefined ? null : this.#resultOf('baseline', baseline, records),
    }
  }

  #resultOf(tag: ModelTag, name: string, records: readonly ItemRecord[]): ModelResult {
    const { attempts: nRuns, passThreshold, scoreNames } = this.#plan
    const own = records.filter(({ model }) => model === tag)
    return { tag, name, metrics: computeMetrics(own, { nRuns, passThreshold, scoreNames }) }
  }
}
