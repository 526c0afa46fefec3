/** Describes a list of rewards, or of scores. */
export interface RewardStats {
  readonly mean: number
  readonly median: number
  /** Of the population. */
  readonly std: number
  readonly min: number
  readonly max: number
}

/** Chance that at least one of k attempts at a row passes. */
export interface PassAtK {
  readonly k: number
  readonly value: number
}

/** Failed items with one error type. */
export interface FailureGroup {
  readonly errorType: string
  readonly count: number
  /** The message of the first of them in row order. */
  readonly example: string
}

/** What one eval function, or the reward, came to over the items that have ended. */
export interface ScoreMetrics {
  /** Items with a score. */
  readonly graded: number
  /** Those whose score reaches the threshold. */
  readonly passed: number
  /** `passed` by all items but skipped ones, so that one without a score counts as not passed. */
  readonly passRate: number
  /** Null when nothing is graded. */
  readonly stats: RewardStats | null
  /** Null unless there are two points or more. */
  readonly passAtK: readonly PassAtK[] | null
}

/** What an evaluation has found of one model, over the items that have ended. */
export interface EvaluationMetrics {
  /** Ended items; pending ones are in no figure. */
  readonly totalItems: number
  /** Without the skipped ones. */
  readonly completedItems: number
  readonly failed: number
  readonly skipped: number
  /** The least reward, or score, of an item that passes. */
  readonly passThreshold: number
  readonly reward: ScoreMetrics
  /** By eval function. */
  readonly scores: Readonly<Record<string, ScoreMetrics>>
  /** Tokens of all items, skipped ones included. */
  readonly tokensUsed: number
  readonly promptTokens: number
  readonly completionTokens: number
  /** Milliseconds, summed over the items. */
  readonly durationMs: number
  /** Attempts per row. */
  readonly nRuns: number
  /** The most frequent first. */
  readonly failures: readonly FailureGroup[]
  /** Successes that never called the policy: usually an agent that bypasses it. */
  readonly withoutModelCalls: number
}
