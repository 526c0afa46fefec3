import type { DatasetRow } from '../dataset/dataset-row.ts'
import type { Scorer } from '../scoring/scorer.ts'
import type { EvaluationSnapshot, RunNames } from './evaluation-result.ts'
import type { ItemRecord } from './item-record.ts'
import type { ItemRunner } from './item-runner.ts'

/** A model, and how its items are run. */
export interface EvaluatedModel {
  /** The name it goes by in files and reports. */
  readonly name: string
  readonly runner: ItemRunner
  /**
   * Why no model call can succeed, e.g. a wrong key; null while that is not known. When it is, no
   * further item is started. What `watchPolicy` returns has it.
   */
  readonly policy?: { readonly failure: string | null }
}

/** Passed after every item that has ended. */
export interface EvaluationProgress {
  /** Items that have ended. */
  readonly done: number
  readonly total: number
  readonly item: ItemRecord
}

/** Where the records of an evaluation go. What it throws ends the evaluation. */
export interface EvaluationSink {
  /** Where the results can be found, for people. */
  readonly location: string
  /**
   * Takes the end of an item; awaited before the item counts as done. Calls overlap. `snapshot`
   * says how the evaluation stands, this record included; it costs time in proportion to the
   * records.
   */
  record(record: ItemRecord, snapshot: () => EvaluationSnapshot): Promise<void>
  /** Takes the final state. Called once, after the last `record` has settled. */
  finish(snapshot: EvaluationSnapshot): Promise<void>
}

/** Options of `runEvaluation`. */
export interface EvaluationOptions {
  readonly names: RunNames
  /** The selected rows, in order. */
  readonly rows: readonly DatasetRow[]
  /** The model under evaluation. */
  readonly model: EvaluatedModel
  /** Runs every item a second time, for comparison. Default: none. */
  readonly baseline?: EvaluatedModel
  /** Score every item that succeeds; see `toScorer`. Default: none, the reward is all there is. */
  readonly scorers?: readonly Scorer[]
  /** Attempts per row and model. Default: 1. */
  readonly n?: number
  /** How many items may run at once. Default: 1. */
  readonly maxInFlight?: number
  /** The least reward, or score, of an item that passes. Default: 1. */
  readonly passThreshold?: number
  /**
   * Stops dispatch and cancels what runs; the message of its reason becomes `incompleteReason`.
   * For an interrupt, and for a rollout server that has died.
   */
  readonly signal?: AbortSignal
  /** Where results are written. Default: nowhere. */
  readonly sink?: EvaluationSink
  /** Called at each item's end, in the order they end. */
  readonly onItem?: (record: ItemRecord) => void
  /** Called at each item's end, after `onItem`. */
  readonly onProgress?: (progress: EvaluationProgress) => void
}
