import { createHash } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'

import type { DatasetRow } from './dataset-row.ts'

const rowsPattern = /^\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$/

/** A selection of rows. */
export interface RowSelection {
  /** Positions in the file from 0, as `0-4,7`; ranges include both ends. Overrides the others. */
  readonly rows?: string
  /**
   * Only rows with these values in their metadata or other columns, each as `key=value`. Several values of a key are
   * alternatives. Default: all rows.
   */
  readonly where?: readonly string[] | undefined
  /** Takes the rows in a random order, before `offset`, `limit` and `sample`. Default: false. */
  readonly shuffle?: boolean | undefined
  /** Takes this many rows at random, of those that the others leave. Default: all. */
  readonly sample?: number | undefined
  /** Decides which rows and which order; the same file and seed give the same. Default: 0. */
  readonly seed?: number | undefined
  /** Skips the first rows. Default: 0. */
  readonly offset?: number | undefined
  /** Maximum number of rows. Default: null, all; 0 or less means all too. */
  readonly limit?: number | null
}

/**
 * Selects rows of a dataset, each once, in file order unless they are shuffled.
 *
 * @throws OsmosisError with code `invalid_config` for `rows` that is not a list of rows or names rows that
 * do not exist, and for `where` without `=`; `invalid_dataset` when no row is selected
 */
export function selectRows(
  rows: readonly DatasetRow[],
  selection: RowSelection = {},
): DatasetRow[] {
  const { offset = 0, limit = null, where = [], shuffle = false, sample, seed = 0 } = selection
  if (selection.rows !== undefined) return someOf(pickRows(rows, selection.rows), 'it is empty')
  const matching = rowsWhere(rows, where)
  const ordered = shuffle ? shuffled(matching, `order/${seed}`) : matching
  const ranged = ordered.slice(
    offset,
    limit === null || limit <= 0 ? ordered.length : offset + limit,
  )
  const why =
    rows.length === 0
      ? 'it is empty'
      : matching.length === 0
        ? `none of its ${rows.length} rows has ${where.join(' and ')}`
        : `it has ${matching.length}, and an offset of ${offset} leaves none`
  return someOf(sample === undefined ? ranged : sampled(ranged, sample, seed), why)
}

function someOf(rows: DatasetRow[], why: string): DatasetRow[] {
  if (rows.length > 0) return rows
  throw new OsmosisError('invalid_dataset', `The dataset selected no rows: ${why}.`)
}

/** The value of a row under a name, in its metadata or else in its other columns, as text. */
export function rowValue(row: DatasetRow, name: string): string | undefined {
  const value = row.metadata?.[name] ?? row.otherColumns[name]
  if (value === undefined || value === null) return undefined
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function rowsWhere(rows: readonly DatasetRow[], where: readonly string[]): readonly DatasetRow[] {
  const wanted = new Map<string, Set<string>>()
  for (const term of where) {
    const at = term.indexOf('=')
    if (at < 1) throw invalidRows(`--where must be <key>=<value>, got '${term}'`)
    const key = term.slice(0, at)
    wanted.set(key, (wanted.get(key) ?? new Set()).add(term.slice(at + 1)))
  }
  const terms = [...wanted]
  return rows.filter((row) => terms.every(([key, values]) => values.has(rowValue(row, key) ?? '')))
}

/** Rows at random, in the order in which they were given. */
function sampled(rows: readonly DatasetRow[], count: number, seed: number): DatasetRow[] {
  const drawn = new Set(shuffled(rows, `sample/${seed}`).slice(0, count))
  return rows.filter((row) => drawn.has(row))
}

/** An order that the seed and the place of each row decide: a row that is added moves no other past another. */
function shuffled(rows: readonly DatasetRow[], seed: string): DatasetRow[] {
  const keyed = rows.map((row) => {
    const hash = createHash('sha256').update(`${seed}/${row.sourceRowIndex}`)
    return { row, key: hash.digest('hex') }
  })
  return keyed.toSorted((a, b) => (a.key < b.key ? -1 : 1)).map(({ row }) => row)
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
