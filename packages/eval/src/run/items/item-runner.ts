import type { PolicyTrouble, TokenUsage } from '@osmosis/controller'
import type { RolloutGroup } from '@osmosis/core'
import type { Trajectory } from '@osmosis/protocol/trajectory'

import type { DatasetRow } from '../../dataset/dataset-row.ts'
import type { GradedRollout } from '../../store/write/run-store.ts'

/** How an item ended; `skipped`: all its samples were removed from training. */
export type ItemStatus = 'success' | 'failed' | 'skipped'

/** One attempt at a row. */
export interface EvaluationItem {
  /** Unique; includes row and attempt for readers of logs. */
  readonly rolloutId: string
  readonly row: DatasetRow
  /** Position in the selected rows, from 0. */
  readonly rowIndex: number
  /** The attempt, from 0. */
  readonly runIndex: number
  /** The group of attempts at this row, and the number of this attempt. */
  readonly group: Required<RolloutGroup>
}

/** A conversation of an item, for eval functions to score. */
export interface ScorableSample {
  /** In the form of its framework. */
  readonly messages: readonly unknown[]
  /** Text of the last assistant message; empty when there is none. */
  readonly solutionStr: string
  readonly reward: number | null
}

/** How an item ended. */
export interface ItemOutcome {
  readonly status: ItemStatus
  /** The mean over the samples in training; null when there is none or one of them has no reward. */
  readonly reward: number | null
  /** By sample id, for all samples of the rollout; null for one without a reward. */
  readonly sampleRewards: Readonly<Record<string, number | null>>
  /**
   * By sample id, for samples whose grader set step rewards: one for each recorded model call that was answered,
   * null for a call without one. Default: none.
   */
  readonly stepRewards?: Readonly<Record<string, readonly (number | null)[]>>
  /** The samples in training; empty unless the item is a success. */
  readonly samples: readonly ScorableSample[]
  /** Null when no model call was made. */
  readonly usage: TokenUsage | null
  /** Milliseconds. */
  readonly durationMs: number
  /** Null unless failed. */
  readonly errorType: string | null
  /** Null unless failed. */
  readonly errorMessage: string | null
  readonly record: ItemRecord
}

/** The stored details of an item beside its figures. */
export interface ItemRecord {
  /** The conversations, by sample id; null when there are none. */
  readonly trajectories: Readonly<Record<string, Trajectory>> | null
  /** The samples that the grader saw; null when the rollout has nothing to grade. */
  readonly graded: GradedRollout | null
  /** Metrics of the samples in training; with several samples the mean of each. */
  readonly metrics: Readonly<Record<string, number>>
  /** Milliseconds; null when nothing was graded, or when unknown. */
  readonly gradingMs: number | null
  /** The failure of the policy in this rollout; null when there was none, or it was not recorded. */
  readonly trouble: PolicyTrouble | null
}

/** Options of {@link ItemRunner.run}. */
export interface ItemRunOptions {
  /** Cancels the item. */
  readonly signal: AbortSignal
  /** Whether an item without a reward is a failure: false when eval functions score it. */
  readonly needsReward: boolean
  /**
   * Receives the outcome of the item before the server's report is acknowledged; may be called again after it
   * has thrown. Not called for an item that was cancelled.
   */
  readonly onEnd?: (outcome: ItemOutcome) => Promise<void>
}

/** Runs items: as a workflow, or as an agent loop. */
export interface ItemRunner {
  /**
   * Runs an item to its end; failures of the rollout are outcomes.
   *
   * @throws OsmosisError as `Controller.run` does; the signal's reason when the signal cancelled the item
   */
  run(item: EvaluationItem, options: ItemRunOptions): Promise<ItemOutcome>
}
