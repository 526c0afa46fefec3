/** One rollout to run: a dataset row and how long it may take. */
export interface RolloutOrder {
  /** A single path segment of printable ASCII. Default: a fresh one. */
  readonly rolloutId?: string
  /** The prompt, as chat messages. */
  readonly initialMessages: readonly Readonly<Record<string, unknown>>[]
  /** Reference answer; reaches the grader only. Default: null. */
  readonly label?: string | null
  /** Reaches workflow and grader. Default: null. */
  readonly metadata?: Readonly<Record<string, unknown>> | null
  /** Copied by the server into the archived trajectory. Default: null. */
  readonly extraFields?: Readonly<Record<string, unknown>> | null
  /** Budget of the workflow, queue time included. Seconds. Default: null, unbounded. */
  readonly agentTimeoutSeconds?: number | null
  /** Budget of the grader. Seconds. Default: null, unbounded. */
  readonly graderTimeoutSeconds?: number | null
  /** Whether to ask for rewards; without, the completion callback ends the rollout. Default: true. */
  readonly grade?: boolean
  /**
   * How long to wait for the end of the rollout once the server has accepted it. Milliseconds.
   * Default: null, for ever.
   */
  readonly timeoutMs?: number | null
}
