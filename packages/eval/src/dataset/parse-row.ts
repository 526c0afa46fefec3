import { type DatasetRow } from './dataset-row.ts'
import { parseExactJson, toExactText, toPlainJson, WrittenNumber } from './exact-json.ts'

/** Which columns the dataset has, over all of its rows. */
export interface DatasetColumns {
  readonly metadata: boolean
}

/** A cell that cannot be used; the message does not say which row. */
export class RowProblem extends Error {
  override readonly name = 'RowProblem'
}

/**
 * Turns the cells of a row, as `parseExactJson` returns them, into a row.
 *
 * @throws RowProblem
 */
export function parseRow(
  cells: Readonly<Record<string, unknown>>,
  sourceRowIndex: number,
  columns: DatasetColumns,
): DatasetRow {
  const system = promptText(cells, 'system_prompt')
  const user = promptText(cells, 'user_prompt')
  const label = labelText(cells.ground_truth) ?? labelText(cells.label)
  const metadata = readMetadata(cells.metadata)
  if (!columns.metadata) {
    const where = `is required for a dataset with no 'metadata' column`
    if (user === null) throw new RowProblem(`user_prompt ${where}`)
    if (label === null) throw new RowProblem(`ground_truth (or label) ${where}`)
  }
  if (system === null && user === null && metadata === null) {
    throw new RowProblem('has no prompt and no metadata; fill in user_prompt or metadata')
  }
  return {
    sourceRowIndex,
    initialMessages: [
      ...(system === null ? [] : [{ role: 'system' as const, content: system }]),
      ...(user === null ? [] : [{ role: 'user' as const, content: user }]),
    ],
    label,
    metadata,
  }
}

function promptText(cells: Readonly<Record<string, unknown>>, column: string): string | null {
  const cell = cells[column]
  if (typeof cell === 'object' && cell !== null && !(cell instanceof WrittenNumber)) {
    throw new RowProblem(`${column} must be text, got ${typeName(cell)}`)
  }
  return labelText(cell)
}

/** Null when absent or empty; JSON text for what is not a string. */
function labelText(cell: unknown): string | null {
  if (cell === undefined || cell === null || cell === '') return null
  return typeof cell === 'string' ? cell : toExactText(cell)
}

function readMetadata(cell: unknown): Readonly<Record<string, unknown>> | null {
  if (cell === undefined || cell === null) return null
  const value = typeof cell === 'string' ? parseMetadataText(cell) : cell
  if (value === null) return null
  if (typeof value !== 'object' || Array.isArray(value) || value instanceof WrittenNumber) {
    throw new RowProblem(`metadata must be a JSON object, got ${typeName(value)}`)
  }
  if (Object.keys(value).length === 0) return null
  return toPlainJson(value) as Record<string, unknown>
}

function parseMetadataText(text: string): unknown {
  if (text.trim() === '') return null
  try {
    return parseExactJson(text)
  } catch (cause) {
    throw new RowProblem(`metadata is not valid JSON (${(cause as SyntaxError).message})`, {
      cause,
    })
  }
}

function typeName(value: unknown): string {
  if (value instanceof WrittenNumber) return 'number'
  return Array.isArray(value) ? 'array' : typeof value
}
