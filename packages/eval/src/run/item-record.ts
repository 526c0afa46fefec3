import type { TokenUsage } from '@osmosis/controller'

/** How an item ended: skipped means the workflow took its sample out of training. */
export type ItemStatus = 'success' | 'failed' | 'skipped'

/** The end of one item: one attempt at one row. */
export interface ItemRecord {
  /** Position in the selected rows, from 0. */
  readonly rowIndex: number
  /** Position in the dataset file, from 0. */
  readonly sourceRowIndex: number
  /** The attempt, from 0. */
  readonly runIndex: number
  readonly rolloutId: string
  readonly status: ItemStatus
  /** The mean over the kept samples; null when there is none or one of them has no reward. */
  readonly reward: number | null
  /** By sample id, for all samples of the rollout; null for one without a reward. */
  readonly sampleRewards: Readonly<Record<string, number | null>>
  /** Null when no model call was made. */
  readonly usage: TokenUsage | null
  /** Milliseconds. */
  readonly durationMs: number
  /** What kind of failure; null unless failed. */
  readonly errorType: string | null
  /** Null unless failed. */
  readonly errorMessage: string | null
}
