/** How an item ended: skipped means the workflow took its sample out of training. */
export type ItemEventStatus = 'success' | 'failed' | 'skipped'

/** Where a line lies: segment number, offset and length in bytes, CRC-32 of its bytes with the newline. */
export type SegmentPlace = readonly [segment: number, offset: number, length: number, crc32: number]

/** How one tool was used in a rollout. */
export interface ToolUse {
  readonly name: string
  readonly calls: number
  /** Calls whose result was an error. */
  readonly errors: number
}

/**
 * A line of `events.jsonl`: the end of one item, with everything that tables and statistics need. The
 * first keys are those of the Python SDK's `index.jsonl`. What is not known is null.
 */
export interface ItemEvent {
  /** Position in the selected rows, from 0. */
  readonly row_index: number
  /** The attempt, from 0. */
  readonly run_index: number
  /** Position in the dataset file, from 0. Together with `run_index` and `model_tag` it names the item. */
  readonly source_row_index: number
  /** Only where two models are compared. */
  readonly model_tag?: 'primary' | 'baseline'
  readonly rollout_id: string
  readonly status: ItemEventStatus
  /** The mean over the kept samples; null when there is none or one of them has no reward. */
  readonly reward: number | null
  /** Prompt and completion. Null when no model call was made, or the endpoint counted none. */
  readonly tokens: number | null
  readonly duration_ms: number
  /** Null unless failed. */
  readonly error_type: string | null
  /** Null unless failed. */
  readonly error_message: string | null
  /** The row in other datasets: its `id` column, else a hash of prompt, label and metadata. */
  readonly row_key: string
  /** The reward of every sample by its id; null for one without. */
  readonly samples: Readonly<Record<string, number | null>>
  /** By eval function; only where there are any. */
  readonly scores?: Readonly<Record<string, number>>
  /** Why there is no score; only where one is missing. */
  readonly score_errors?: Readonly<Record<string, string>>
  readonly prompt_tokens: number | null
  readonly completion_tokens: number | null
  /** In US dollars. Null when the price is not known. */
  readonly cost_usd: number | null
  /** Model calls that were answered. */
  readonly calls: number
  readonly tool_calls: number
  /** Tool calls whose result was an error. */
  readonly tool_errors: number
  /** How many calls ended for which reason, e.g. `{ stop: 1, tool_calls: 3 }`. */
  readonly finish: Readonly<Record<string, number>>
  /** Calls that did not extend the conversation before them. */
  readonly rewritten: number
  /** In the order of their first call. */
  readonly tools: readonly ToolUse[]
  /** Metrics that the grader gave the samples; with several samples the mean of each. */
  readonly metrics: Readonly<Record<string, number>>
  /** How long grading took. Null when nothing was graded, or that is not known. */
  readonly grading_ms: number | null
  /** The last text of the policy, or the error; at most 160 characters, on one line. */
  readonly summary: string
  /** ISO 8601, UTC. */
  readonly ended_at: string
  /** The line with its trajectories; null when nothing was said. */
  readonly at: SegmentPlace | null
  /** The line with what the grader saw; null when there is none. */
  readonly sat: SegmentPlace | null
}
