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
   * What the row says in columns that the dataset format gives no meaning to, under their names as
   * written. Plain JSON data; empty cells and nulls are left out.
   */
  readonly otherColumns: Readonly<Record<string, unknown>>
}

// Beside the rows, not in them: the same data gives the same rows in every format.
const places = new WeakMap<DatasetRow, string>()

/** Notes where a row stands in its file. */
export function withPlace(row: DatasetRow, place: string): DatasetRow {
  places.set(row, place)
  return row
}

/** Where a row stands in its file: `line 3` of a text file, `row 2` (from 0) of a Parquet file. */
export function placeOf(row: DatasetRow): string {
  return places.get(row) ?? `row ${row.sourceRowIndex}`
}
