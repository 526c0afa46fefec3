import type { TokenUsage } from '@osmosis/controller'
import type { RolloutGroup } from '@osmosis/core'

import type { DatasetRow } from '../dataset/dataset-row.ts'
import type { KeptItem } from './kept-item.ts'

/** How an item ended: skipped means the workflow took its sample out of training. */
export type ItemStatus = 'success' | 'failed' | 'skipped'

/** Which model an item belongs to: the one under evaluation, or the one it is compared with. */
export type ModelTag = 'primary' | 'baseline'

/** One attempt of a model at a row. */
export interface EvaluationItem {
  /** Unique; names row, attempt and baseline for people who read logs. */
  readonly rolloutId: string
  readonly row: DatasetRow
  /** Position in the selected rows, from 0. */
  readonly rowIndex: number
  /** The attempt, from 0. */
  readonly runIndex: number
  readonly model: ModelTag
  /** The attempts of this model at this row, and which of them it is. */
  readonly group: Required<RolloutGroup>
}

/** A conversation that came out of an item, for eval functions to score. */
export interface ScorableSample {
  /** In the form of the framework that held it. */
  readonly messages: readonly unknown[]
  /** Text of the last assistant message; empty when there is none. */
  readonly solutionStr: string
  readonly reward: number | null
}

/** How an item ended. */
export interface ItemOutcome {
  readonly status: ItemStatus
  /** The mean over the kept samples; null when there is none or one of them has no reward. */
  readonly reward: number | null
  /** By sample id, for all samples of the rollout; null for one without a reward. */
  readonly sampleRewards: Readonly<Record<string, number | null>>
  /** The kept ones; empty unless the item is a success. */
  readonly samples: readonly ScorableSample[]
  /** Null when no model call was made. */
  readonly usage: TokenUsage | null
  /** Milliseconds. */
  readonly durationMs: number
  /** What kind of failure; null unless failed. */
  readonly errorType: string | null
  /** Null unless failed. */
  readonly errorMessage: string | null
  readonly kept: KeptItem
}

/** Options of {@link ItemRunner.run}. */
export interface ItemRunOptions {
  /** Cancels the item. */
  readonly signal: AbortSignal
  /** Whether an item without a reward is a failure: not when eval functions score it. */
  readonly needsReward: boolean
  /**
   * Takes the end of the item, before whoever reported it is told that it has arrived; it may be called
   * again after it has thrown. Not called for an item that was cancelled.
   */
  readonly onEnd?: (outcome: ItemOutcome) => Promise<void>
}

/** Runs the items of one model, whatever it is that runs: a workflow, or an agent loop. */
export interface ItemRunner {
  /**
   * Runs an item to its end; failures of the rollout are outcomes.
   *
   * @throws OsmosisError as `Controller.run` does; the signal's reason when that has cancelled it
   */
  run(item: EvaluationItem, options: ItemRunOptions): Promise<ItemOutcome>
}
