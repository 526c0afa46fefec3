import type { ItemEvent } from './item-event.ts'

/**
 * A line of `notes.jsonl`: what a person noted about an item. The last one of an item counts, and one
 * without tag and text removes it.
 */
export interface RunNote extends Pick<ItemEvent, 'source_row_index' | 'run_index' | 'model_tag'> {
  /** A short word by which items are found, e.g. `skipped check`; null for a text alone. */
  readonly tag: string | null
  readonly text: string
  /** ISO 8601, UTC. */
  readonly at: string
}
