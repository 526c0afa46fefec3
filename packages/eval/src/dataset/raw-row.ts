/** A row as its file has it, whatever the format. */
export interface RawRow {
  /** Where it stands, for messages: `line 3` of a text file, `row 2` (from 0) of a Parquet file. */
  readonly place: string
  /** By column name as written. What `parseExactJson` returns for such values; null when empty. */
  readonly cells: Readonly<Record<string, unknown>>
}

/**
 * Reads all rows of a file. What is wrong with single rows or columns is added to `problems`.
 *
 * @throws Error when nothing can be read
 */
export type RowReader = (file: string, problems: string[]) => Promise<RawRow[]>
