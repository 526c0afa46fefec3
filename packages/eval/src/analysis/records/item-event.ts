/** How an item ended; `skipped`: all its samples were removed from training. */
export type ItemEventStatus = 'success' | 'failed' | 'skipped'

/** The place of a line: segment number, offset and length in bytes, CRC-32 of its bytes with the newline. */
export type SegmentPlace = readonly [segment: number, offset: number, length: number, crc32: number]

/** The use of one tool in a rollout. */
export interface ToolUse {
  readonly name: string
  readonly calls: number
  /** Calls whose result was an error. */
  readonly errors: number
}

/**
 * A line of `events.jsonl`: the end of one item, with everything that tables and statistics need. The
 * first keys are those of the Python SDK's `index.jsonl`. Unknown values are null.
 */
export interface ItemEvent {
  /** Position in the selected rows, from 0. */
  readonly row_index: number
  /** The attempt, from 0. */
  readonly run_index: number
  /** Position in the dataset file, from 0. With `run_index` it identifies the item. */
  readonly source_row_index: number
  readonly rollout_id: string
  readonly status: ItemEventStatus
  /** The mean over the samples in training; null when there is none or one of them has no reward. */
  readonly reward: number | null
  /** Prompt and completion. Null when no model call was made, or the endpoint reported no counts. */
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
  /** The number of calls by finish reason, e.g. `{ stop: 1, tool_calls: 3 }`. */
  readonly finish: Readonly<Record<string, number>>
  /** Calls that did not extend the conversation before them, other than by another agent's instructions. */
  readonly rewritten: number
  /** The limit of `rolloutLimits` or of its framework that ended it. Default: none did. */
  readonly limit?: string
  /** What the policy did so that its framework gave up: `refusal`, `output` or `tool_call`. Default: it did not. */
  readonly model_error?: string
  /** True when its last answer has no text, nothing explains that, and its workflow returned no output. Default: false. */
  readonly no_text?: true
  /** Versions of the policy that answered, in the order of their first call. Default: unknown. */
  readonly versions?: readonly string[]
  /** Purposes of the answered calls, in the order of their first call. Default: `agent` alone. */
  readonly purposes?: readonly string[]
  /** In the order of their first call. */
  readonly tools: readonly ToolUse[]
  /** Metrics that the grader gave the samples; with several samples the mean of each. */
  readonly metrics: Readonly<Record<string, number>>
  /** How long grading took. Null when nothing was graded, or when unknown. */
  readonly grading_ms: number | null
  /** The last text of the policy, or what `run()` returned where its last answer has no text, or the error; at most 160 characters, on one line. */
  readonly summary: string
  /** ISO 8601, UTC. */
  readonly ended_at: string
  /** The line with its trajectories; null when there are none. */
  readonly trajectory_place: SegmentPlace | null
  /** The line with the samples that the grader saw; null when there are none. */
  readonly sample_place: SegmentPlace | null
}

/**
 * A line of `notes.jsonl`: a person's note about an item. The last note of an item counts; one without tag
 * and text removes it.
 */
export interface RunNote extends Pick<ItemEvent, 'source_row_index' | 'run_index'> {
  /** A short label by which items are found, e.g. `skipped check`; null for a note without one. */
  readonly tag: string | null
  readonly text: string
  /** ISO 8601, UTC. */
  readonly at: string
}

/**
 * The name of an item for people: `12.3` is the third attempt at row 12 of the dataset, whose first row is
 * 0. In files an attempt is `run_index`, from 0.
 */
export function rolloutName({
  source_row_index: row,
  run_index: attempt,
}: Pick<ItemEvent, 'source_row_index' | 'run_index'>): string {
  return `${row}.${attempt + 1}`
}

/** A row, or an attempt at it, that a person named. */
export interface NamedRollout {
  readonly row: number
  /** As in files, from 0; undefined for the row. */
  readonly attempt: number | undefined
}

/** Parses `12` and `12.3`; undefined for any other text. */
export function parseRolloutName(text: string): NamedRollout | undefined {
  const [whole, row, attempt] = /^(\d+)(?:\.([1-9]\d*))?$/.exec(text) ?? []
  if (whole === undefined) return undefined
  return { row: Number(row), attempt: attempt === undefined ? undefined : Number(attempt) - 1 }
}

/** Identifies an item: its row in the dataset, and its attempt. */
export type ItemReference = Pick<ItemEvent, 'source_row_index' | 'run_index'>

/** The reference of an item as one text, such as `12.0`. */
export function itemKey(item: ItemReference): string {
  return `${item.source_row_index}.${item.run_index}`
}
