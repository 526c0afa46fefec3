/** Rewards of the items that have one. */
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

/** What an evaluation has found, over the items that have ended. */
export interface EvaluationMetrics {
  /** Ended items; pending ones are in no figure. */
  readonly totalSamples: number
  /** Without the skipped ones. */
  readonly completedSamples: number
  /** Those with a reward. */
  readonly graded: number
  /** Those whose reward reaches `passThreshold`. */
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  /** `passed` by `completedSamples`, so that a failure without a reward counts as not passed. */
  readonly passRate: number
  readonly passThreshold: number
  /** Tokens of all items, skipped ones included. */
  readonly tokensUsed: number
  readonly promptTokens: number
  readonly completionTokens: number
  /** Null when nothing is graded. */
  readonly rewardStats: RewardStats | null
  /** Attempts per row. */
  readonly nRuns: number
  /** Null unless there are two points or more. */
  readonly passAtK: readonly PassAtK[] | null
  /** The most frequent first. */
  readonly failures: readonly FailureGroup[]
  /** Successes that never called the policy: usually an agent that bypasses it. */
  readonly withoutModelCalls: number
}
