import type { EvaluationMetrics } from '../metrics/evaluation-metrics.ts'
import type { ItemRecord } from './item-record.ts'

/** The names an evaluation goes by in files and reports. */
export interface RunNames {
  /** See `assertRunName`. */
  readonly run: string
  readonly rollout: string
  readonly dataset: string
  /** The model or policy under evaluation. */
  readonly model: string
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
  /** Attempts per row. */
  readonly attempts: number
  /** Items that have not ended. */
  readonly pending: number
  /** Sorted by row, then attempt. */
  readonly records: readonly ItemRecord[]
  readonly metrics: EvaluationMetrics
}

/** What became of an evaluation. */
export interface EvaluationResult extends EvaluationSnapshot {
  readonly status: 'incomplete' | 'finished'
  readonly completedAt: Date
  /** Where the sink has put the results; null without a sink. */
  readonly location: string | null
}
