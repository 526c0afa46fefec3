import type { RolloutOrder, RolloutOutcome } from '@osmosis/controller'

import type { DatasetRow } from '../dataset/dataset-row.ts'
import type { RunNames } from './evaluation-result.ts'
import type { EvaluationSink } from './evaluation-sink.ts'
import type { ItemRecord } from './item-record.ts'

/** Runs one rollout to its end, as `Controller.run` does. */
export type RunRollout = (
  order: RolloutOrder,
  options: { signal: AbortSignal },
) => Promise<RolloutOutcome>

/** Told after every item that has ended. */
export interface EvaluationProgress {
  /** Items that have ended. */
  readonly done: number
  readonly total: number
  readonly item: ItemRecord
}

/** Options of `runEvaluation`. */
export interface EvaluationOptions {
  readonly names: RunNames
  /** The selected rows, in order. */
  readonly rows: readonly DatasetRow[]
  readonly runRollout: RunRollout
  /** Attempts per row. Default: 1. */
  readonly n?: number
  /** How many rollouts may run at once. Default: 1. */
  readonly maxInFlight?: number
  /** The least reward of a passed attempt. Default: 1. */
  readonly passThreshold?: number
  /** Seconds. Default: null, unbounded. */
  readonly agentTimeoutSeconds?: number | null
  /** Seconds. Default: null, unbounded. */
  readonly graderTimeoutSeconds?: number | null
  /**
   * Stops dispatch and cancels what runs; the message of its reason becomes `incompleteReason`.
   * For an interrupt, and for a rollout server that has died.
   */
  readonly signal?: AbortSignal
  /** Where results are written. Default: nowhere. */
  readonly sink?: EvaluationSink
  /** Hears of each item's end, in the order they end. */
  readonly onItem?: (record: ItemRecord) => void
  /** Hears of each item's end, after `onItem`. */
  readonly onProgress?: (progress: EvaluationProgress) => void
}
