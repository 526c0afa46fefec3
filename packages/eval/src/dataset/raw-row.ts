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

/** Data that cannot be used. The message does not say where it is. */
export class DataProblem extends Error {
  override readonly name = 'DataProblem'
}

/** What `read` returns; undefined when it throws a {@link DataProblem}, which is noted. */
export function noting<T>(problems: string[], place: string, read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof DataProblem)) throw error
    problems.push(`${place}: ${error.message}`)
    return undefined
  }
}
