import type { RunCost } from './run-cost.ts'
import type { EvaluationMetrics } from '../analysis/evaluation-metrics.ts'
import type { ItemEvent } from '../analysis/item-event.ts'
import type { ModelTag } from './item-runner.ts'

/** The names an evaluation goes by in files and reports. */
export interface RunNames {
  /** See `assertRunName`. */
  readonly run: string
  readonly rollout: string
  readonly dataset: string
}

/** What came of the items of one model. */
export interface ModelResult {
  readonly tag: ModelTag
  readonly name: string
  readonly metrics: EvaluationMetrics
}

/** An evaluation as it stands. */
export interface EvaluationSnapshot {
  /** 32 hexadecimal digits. */
  readonly id: string
  readonly names: RunNames
  readonly status: 'running' | 'incomplete' | 'finished'
  /** Why items are pending although nothing runs any more; null otherwise. */
  readonly incompleteReason: string | null
  readonly startedAt: Date
  /** Null while running. */
  readonly completedAt: Date | null
  /** Milliseconds of wall time. */
  readonly durationMs: number
  readonly rowCount: number
  /** Attempts per row and model. */
  readonly attempts: number
  /** Items that have not ended. */
  readonly pending: number
  /** Items that have ended, sorted by row, then attempt, then model. */
  readonly items: readonly ItemEvent[]
  /** The model under evaluation. */
  readonly model: ModelResult
  /** The one it is compared with; null when there is none. */
  readonly baseline: ModelResult | null
}

/** What became of an evaluation. */
export interface EvaluationResult extends EvaluationSnapshot {
  readonly status: 'incomplete' | 'finished'
  readonly completedAt: Date
  /** What the rollouts of the run have cost; null when that is not known, and without a store. */
  readonly cost: RunCost | null
  /** Where the sink has put the results; null without a sink. */
  readonly location: string | null
}
