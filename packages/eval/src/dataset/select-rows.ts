import { OsmosisError } from '@osmosis/core'

import type { DatasetRow } from './dataset-row.ts'

const rowsPattern = /^\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$/

/** A selection of rows. */
export interface RowSelection {
  /** Positions in the file from 0, as `0-4,7`; ranges include both ends. Overrides the others. */
  readonly rows?: string
  /** Skips the first rows. Default: 0. */
  readonly offset?: number
  /** Maximum number of rows. Default: null, all; 0 or less means all too. */
  readonly limit?: number | null
}

/**
 * Selects rows of a dataset, in file order, each once.
 *
 * @throws OsmosisError with code `invalid_config` for `rows` that is not a list of rows or names rows that
 * do not exist, `invalid_dataset` when no row is selected
 */
export function selectRows(
  rows: readonly DatasetRow[],
  selection: RowSelection = {},
): DatasetRow[] {
  const { offset = 0, limit = null } = selection
  const selected =
    selection.rows === undefined
      ? rows.slice(offset, limit === null || limit <= 0 ? rows.length : offset + limit)
      : pickRows(rows, selection.rows)
  if (selected.length === 0) {
    const why =
      rows.length === 0
        ? 'it is empty'
        : `it has ${rows.length}, and an offset of ${offset} leaves none`
    throw new OsmosisError('invalid_dataset', `The dataset selected no rows: ${why}.`)
  }
  return selected
}

function pickRows(rows: readonly DatasetRow[], text: string): DatasetRow[] {
  const ranges = parseRanges(text)
  const outside = ranges.filter(([, last]) => last >= rows.length)
  if (outside.length > 0) {
    const named = outside.map(([first, last]) => toRangeText(Math.max(first, rows.length), last))
    const valid = rows.length === 0 ? 'the dataset is empty' : `valid rows are 0-${rows.length - 1}`
    throw invalidRows(`--rows ${named.join(',')} is out of range; ${valid}`)
  }
  return rows.filter((_row, index) => ranges.some(([from, to]) => from <= index && index <= to))
}

function parseRanges(text: string): [first: number, last: number][] {
  if (!rowsPattern.test(text)) {
    throw invalidRows(`--rows must be a list of rows and ranges like 0-4,7, got '${text}'`)
  }
  return text.split(',').map((part) => {
    const [first = NaN, last = first] = part.split('-').map(Number)
    if (first > last) {
      throw invalidRows(`--rows range '${part}' is inverted; write it as ${last}-${first}`)
    }
    return [first, last]
  })
}

function toRangeText(first: number, last: number): string {
  return first === last ? String(first) : `${first}-${last}`
}

function invalidRows(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
