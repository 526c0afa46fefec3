import { WrittenNumber, type LargeIntegers, toExactText, toPlainJson } from '@osmosis/protocol/wire'

import type { DatasetRow } from './dataset-row.ts'
import {
  type ColumnMeaning,
  type DatasetColumns,
  DataProblem,
  haveMetadata,
  parseCellJson,
  type RawRow,
} from './raw-row.ts'

/**
 * The row that the cells of its columns make.
 *
 * @throws DataProblem for cells that make no row
 */
export function parseRow(
  { cells }: RawRow,
  sourceRowIndex: number,
  { columns, largeIntegers }: { columns: DatasetColumns; largeIntegers: LargeIntegers },
): DatasetRow {
  const nameOf = (meaning: ColumnMeaning) => columns.names.get(meaning) ?? meaning
  const cellOf = (meaning: ColumnMeaning) => cells[nameOf(meaning)]
  const system = promptText(cellOf('system_prompt'), nameOf('system_prompt'))
  const user = promptText(cellOf('user_prompt'), nameOf('user_prompt'))
  const { metadataFields, labelFields } = columns
  const label =
    labelFields.length > 0
      ? labelOfFields(cells, labelFields)
      : (labelText(cellOf('ground_truth')) ?? labelText(cellOf('label')))
  const metadata =
    metadataFields.length > 0
      ? toMetadata(fieldsOf(cells, metadataFields), largeIntegers)
      : readMetadata(cellOf('metadata'), largeIntegers)
  if (!haveMetadata(columns)) {
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

function promptText(cell: unknown, column: string): string | null {
  if (typeof cell === 'object' && cell !== null && !(cell instanceof WrittenNumber)) {
    throw new DataProblem(
      `${column} must be text, got ${typeName(cell)}; if run() makes its prompt of it, name the column as metadata`,
    )
  }
  return labelText(cell)
}

/** Null when absent or empty; JSON text for what is not a string. */
function labelText(cell: unknown): string | null {
  if (cell === undefined || cell === null || cell === '') return null
  return typeof cell === 'string' ? cell : toExactText(cell)
}

/** An object with a field for each column, null where the cell is empty; no label where all of them are. */
function labelOfFields(cells: RawRow['cells'], names: readonly string[]): string | null {
  const fields = names.map((name) => [name, cells[name] ?? null] as const)
  return fields.every(([, cell]) => cell === null) ? null : labelText(Object.fromEntries(fields))
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
  return toMetadata(value, largeIntegers)
}

function toMetadata(value: object, largeIntegers: LargeIntegers): DatasetRow['metadata'] {
  if (Object.keys(value).length === 0) return null
  return toPlainJson(value, largeIntegers) as Record<string, unknown>
}

function parseMetadataText(text: string): unknown {
  if (text.trim() === '') return null
  try {
    return parseCellJson(text, 'metadata.')
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause
    throw new DataProblem(`metadata is not valid JSON (${cause.message})`, {
      cause,
    })
  }
}

function readOtherColumns(
  cells: RawRow['cells'],
  columns: DatasetColumns,
  largeIntegers: LargeIntegers,
): DatasetRow['otherColumns'] {
  const { names, metadataFields, labelFields } = columns
  const known = new Set([...names.values(), ...metadataFields, ...labelFields])
  const others = Object.keys(cells).filter((name) => !known.has(name))
  return toPlainJson(fieldsOf(cells, others), largeIntegers) as DatasetRow['otherColumns']
}

/** The cells of these columns that are not empty. */
function fieldsOf(cells: RawRow['cells'], names: readonly string[]): object {
  const filled = names.filter((name) => (cells[name] ?? null) !== null)
  return Object.fromEntries(filled.map((name) => [name, cells[name]]))
}

function typeName(value: unknown): string {
  if (value instanceof WrittenNumber) return 'number'
  return Array.isArray(value) ? 'array' : typeof value
}
