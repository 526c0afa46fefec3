import type { ItemEvent } from './item-event.ts'

/**
 * What people call an item: `12.3` is the third attempt at row 12 of the dataset, whose first row is 0;
 * with `@baseline` behind it for the baseline. In files an attempt is `run_index`, from 0.
 */
export function rolloutName({
  source_row_index: row,
  run_index: attempt,
  model_tag: tag,
}: Pick<ItemEvent, 'source_row_index' | 'run_index' | 'model_tag'>): string {
  return `${row}.${attempt + 1}${tag === 'baseline' ? '@baseline' : ''}`
}

/** What a person named: a row, or an attempt at it. */
export interface NamedRollout {
  readonly row: number
  /** As in files, from 0; undefined for the row. */
  readonly attempt: number | undefined
}

/** Reads `12` and `12.3`; undefined for what is no such name. */
export function parseRolloutName(text: string): NamedRollout | undefined {
  const [whole, row, attempt] = /^(\d+)(?:\.([1-9]\d*))?$/.exec(text) ?? []
  if (whole === undefined) return undefined
  return { row: Number(row), attempt: attempt === undefined ? undefined : Number(attempt) - 1 }
}
