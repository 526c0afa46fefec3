import type { ColumnMeaning, DatasetColumns } from './columns.ts'
import type { DatasetRow } from './dataset-row.ts'
import {
  type LargeIntegers,
  parseExactJson,
  toExactText,
  toPlainJson,
  WrittenNumber,
} from './exact-json.ts'
import { DataProblem, type RawRow } from './raw-row.ts'

/**
 * Turns the cells of a row into a row.
 *
 * @throws DataProblem
 */
export function parseRow(
  { cells }: RawRow,
  sourceRowIndex: number,
  { columns, largeIntegers }: { columns: DatasetColumns; largeIntegers: LargeIntegers },
): DatasetRow {
  const cellOf = (meaning: ColumnMeaning) => cells[columns.get(meaning) ?? meaning]
  const system = promptText(cellOf('system_prompt'), 'system_prompt')
  const user = promptText(cellOf('user_prompt'), 'user_prompt')
  const label = labelText(cellOf('ground_truth')) ?? labelText(cellOf('label'))
  const metadata = readMetadata(cellOf('metadata'), largeIntegers)
  if (!columns.has('metadata')) {
    const where = `is required for a dataset with no 'metadata' column`
    if (user === null) throw new DataProblem(`user_prompt ${where}`)
    if (label === null) throw new DataProblem(`ground_truth (or label) ${where}`)
  }
  if (system === null && user === null && metadata === null) {
    throw new DataProblem('has no prompt and no metadata; fill in user_prompt or metadata')
  }
  return {
    sourceRowIndex,
    initialMessages: [
      ...(system === null ? [] : [{ role: 'system' as const, content: system }]),
      ...(user === null ? [] : [{ role: 'user' as const, content: user }]),
    ],
    label,
    metadata,
    otherColumns: readOtherColumns(cells, columns, largeIntegers),
  }
}

function promptText(cell: unknown, column: ColumnMeaning): string | null {
  if (typeof cell === 'object' && cell !== null && !(cell instanceof WrittenNumber)) {
    throw new DataProblem(`${column} must be text, got ${typeName(cell)}`)
  }
  return labelText(cell)
}

/** Null when absent or empty; JSON text for what is not a string. */
function labelText(cell: unknown): string | null {
  if (cell === undefined || cell === null || cell === '') return null
  return typeof cell === 'string' ? cell : toExactText(cell)
}

function readMetadata(
  cell: unknown,
  largeIntegers: LargeIntegers,
): Readonly<Record<string, unknown>> | null {
  if (cell === undefined || cell === null) return null
  const value = typeof cell === 'string' ? parseMetadataText(cell) : cell
  if (value === null) return null
  if (typeof value !== 'object' || Array.isArray(value) || value instanceof WrittenNumber) {
    throw new DataProblem(`metadata must be a JSON object, got ${typeName(value)}`)
  }
  if (Object.keys(value).length === 0) return null
  return toPlainJson(value, largeIntegers) as Record<string, unknown>
}

function parseMetadataText(text: string): unknown {
  if (text.trim() === '') return null
  try {
    return parseExactJson(text)
  } catch (cause) {
    throw new DataProblem(`metadata is not valid JSON (${(cause as SyntaxError).message})`, {
      cause,
    })
  }
}

function readOtherColumns(
  cells: RawRow['cells'],
  columns: DatasetColumns,
  largeIntegers: LargeIntegers,
): DatasetRow['otherColumns'] {
  const known = new Set(columns.values())
  const others = Object.entries(cells).filter(([name, cell]) => cell !== null && !known.has(name))
  return toPlainJson(Object.fromEntries(others), largeIntegers) as DatasetRow['otherColumns']
}

function typeName(value: unknown): string {
  if (value instanceof WrittenNumber) return 'number'
  return Array.isArray(value) ? 'array' : typeof value
}
