import { createHash } from 'node:crypto'

import type { RunRow } from '../analysis/records/run-manifest.ts'

/** One row of a dataset, ready to become a rollout. */
export interface DatasetRow {
  /** Position in the file, from 0; blank lines are not counted. */
  readonly sourceRowIndex: number
  /** The system prompt, if any, then the user prompt, if any. */
  readonly initialMessages: readonly {
    readonly role: 'system' | 'user'
    readonly content: string
  }[]
  /** The reference answer; null when the row has none. */
  readonly label: string | null
  /** Null when the row has none, or an empty one. Plain JSON data. */
  readonly metadata: Readonly<Record<string, unknown>> | null
  /**
   * The columns to which the dataset format gives no meaning, by their names as written. Plain JSON data
   * without empty cells and nulls.
   */
  readonly otherColumns: Readonly<Record<string, unknown>>
}

// Not in the rows, so that the same data gives equal rows in every format.
const places = new WeakMap<DatasetRow, string>()

/** Records the place of a row in its file. */
export function withPlace(row: DatasetRow, place: string): DatasetRow {
  places.set(row, place)
  return row
}

/** The place of a row in its file: `line 3` of a text file, `row 2` (from 0) of a Parquet file. */
export function placeOf(row: DatasetRow): string {
  return places.get(row) ?? `row ${row.sourceRowIndex}`
}

/** Longer texts are content, by which rows are not grouped. */
const maxFacetLength = 64
const maxFacets = 12

/** A row as the manifest of a run has it. */
export function toRunRow(row: DatasetRow): RunRow {
  const facets = Object.entries({ ...row.otherColumns, ...row.metadata })
    .map(([name, value]) => [name, toFacet(value)] as const)
    .filter(([name, facet]) => facet !== '' && facet.length <= maxFacetLength && !isId(name))
    .slice(0, maxFacets)
  return {
    key: rowKey(row),
    source_row: row.sourceRowIndex,
    question: questionOf(row),
    ...(facets.length === 0 ? {} : { facets: Object.fromEntries(facets) }),
  }
}

const maxQuestionLength = 120

function questionOf({ initialMessages }: DatasetRow): string {
  const text = initialMessages.at(-1)?.content.slice(0, 2 * maxQuestionLength) ?? ''
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length <= maxQuestionLength ? line : `${line.slice(0, maxQuestionLength - 1)}…`
}

/** Empty for a value by which rows are not grouped, such as a measurement or a list. */
function toFacet(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'boolean' || Number.isSafeInteger(value) ? String(value) : ''
}

function rowKey({ otherColumns, initialMessages, label, metadata }: DatasetRow): string {
  const [, id] = Object.entries(otherColumns).find(([name]) => isId(name)) ?? []
  if ((typeof id === 'string' && id !== '') || typeof id === 'number') return String(id)
  const content = JSON.stringify([initialMessages, label, metadata])
  return createHash('sha256').update(content).digest('hex').slice(0, 16)
}

function isId(column: string): boolean {
  return column.trim().toLowerCase() === 'id'
}
