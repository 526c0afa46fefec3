/** How a rollout ended. A failed workflow is a failure whatever its grader said. */
export type RolloutEnding = 'success' | 'failure' | 'timeout' | 'cancelled'

/** What kind of thing went wrong, as the rollout server classified it. */
export type RolloutErrorCategory = 'timeout' | 'validation_error' | 'http_error' | 'agent_error'

/** A graded conversation as the rollout server reported it. */
export interface ResultSample {
  readonly id: string
  /** In the format of the framework that held the conversation. */
  readonly messages: readonly unknown[]
  readonly label: string | null
  /** Null unless the sample was kept and graded. */
  readonly reward: number | null
  readonly removeSample: boolean
  readonly metrics: Readonly<Record<string, unknown>>
  readonly extraFields: Readonly<Record<string, unknown>>
}

/** What the completion callback said about the workflow. */
export interface CompletionReport {
  readonly status: 'success' | 'failure'
  readonly errorMessage: string | null
  readonly errorCategory: RolloutErrorCategory | null
  readonly extraFields: Readonly<Record<string, unknown>> | null
}

/** Tokens, as the policy's answers counted them; answers without `usage` count nothing. */
export interface TokenUsage {
  readonly promptTokens: number
  readonly completionTokens: number
  readonly totalTokens: number
}

/** The one terminal result of a rollout. */
export interface RolloutOutcome {
  readonly rolloutId: string
  readonly status: RolloutEnding
  /**
   * By sample id; empty without a grader callback. A server that sends
   * its only sample without an id gets it under `sample`.
   */
  readonly samples: ReadonlyMap<string, ResultSample>
  /** Null for a success. */
  readonly errorMessage: string | null
  /** Null for a success, and when the server gave none. */
  readonly errorCategory: RolloutErrorCategory | null
  /** Null when the rollout ended before its completion callback came. */
  readonly completion: CompletionReport | null
  /** Model calls the policy endpoint let through. */
  readonly policyCalls: number
  readonly usage: TokenUsage
  /** From the request the rollout server accepted to the end. Milliseconds. */
  readonly durationMs: number
}
