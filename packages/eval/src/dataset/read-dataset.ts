import { extname } from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'

import { type DatasetRow } from './dataset-row.ts'
import { parseExactJson, WrittenNumber } from './exact-json.ts'
import { parseRow, RowProblem } from './parse-row.ts'
import { type Line, readLines } from './read-lines.ts'

const shownProblems = 5

interface RawRow {
  readonly lineNumber: number
  readonly cells: Readonly<Record<string, unknown>>
}

/**
 * Reads a dataset in JSON Lines: one object per line with the columns `system_prompt`,
 * `user_prompt`, `ground_truth` (or `label`) and `metadata`; others are ignored. Without a
 * `metadata` column every row needs a user prompt and a ground truth.
 *
 * Numbers in text columns keep their digits exactly. In metadata they are JavaScript numbers: write
 * integers beyond 2^53 as strings there.
 *
 * @throws OsmosisError with code `invalid_dataset`, naming up to five bad lines
 */
export async function readDataset(file: string): Promise<DatasetRow[]> {
  assertJsonLines(file)
  const problems: string[] = []
  const rawRows = await readRawRows(file, problems)
  const columns = new Set<string>()
  for (const { cells } of rawRows) for (const column in cells) columns.add(column)
  if (problems.length === 0) problems.push(...missingColumns(columns))
  if (problems.length > 0) throw invalidDataset(file, problems)

  const rows: DatasetRow[] = []
  for (const [index, { lineNumber, cells }] of rawRows.entries()) {
    try {
      rows.push(parseRow(cells, index, { metadata: columns.has('metadata') }))
    } catch (error) {
      if (!(error instanceof RowProblem)) throw error
      problems.push(`line ${lineNumber}: ${error.message}`)
    }
  }
  if (problems.length > 0) throw invalidDataset(file, problems)
  return rows
}

function assertJsonLines(file: string): void {
  const extension = extname(file).toLowerCase()
  if (extension === '.jsonl' || extension === '.ndjson') return
  throw new OsmosisError(
    'invalid_dataset',
    `Cannot read ${file}: only JSON Lines (.jsonl) datasets are supported. Convert it to one JSON object per line.`,
  )
}

async function readRawRows(file: string, problems: string[]): Promise<RawRow[]> {
  const rows: RawRow[] = []
  try {
    for await (const line of readLines(file)) {
      const cells = parseLine(line, problems)
      if (cells) rows.push({ lineNumber: line.number, cells })
    }
  } catch (cause) {
    throw new OsmosisError(
      'invalid_dataset',
      `Cannot read the dataset ${file}: ${errorMessage(cause)}`,
      { cause },
    )
  }
  if (rows.length === 0 && problems.length === 0) problems.push('contains no rows')
  return rows
}

/** Undefined for a blank line, and for a bad one, which becomes a problem. */
function parseLine({ number, bytes }: Line, problems: string[]): RawRow['cells'] | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    if (text.trim() === '') return undefined
    const value = parseExactJson(text)
    if (isRecord(value)) return value
    problems.push(`line ${number}: invalid JSONL row - top-level value must be an object`)
  } catch (error) {
    const what = error instanceof SyntaxError ? `invalid JSON - ${error.message}` : 'invalid UTF-8'
    problems.push(`line ${number}: ${what}`)
  }
  return undefined
}

function isRecord(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  return !Array.isArray(value) && !(value instanceof WrittenNumber)
}

function missingColumns(columns: ReadonlySet<string>): string[] {
  if (columns.has('metadata')) return []
  const missing = [
    ...(columns.has('user_prompt') ? [] : ['user_prompt']),
    ...(columns.has('ground_truth') || columns.has('label') ? [] : ['ground_truth']),
  ]
  if (missing.length === 0) return []
  return [
    `missing required columns: ${missing.join(', ')}. Datasets without a metadata column must include user_prompt and ground_truth (label is accepted as an alias).`,
  ]
}

function invalidDataset(file: string, problems: readonly string[]): OsmosisError {
  const lines = problems.slice(0, shownProblems).map((problem) => `- ${problem}`)
  if (problems.length > shownProblems) lines.push('... (showing first 5 errors)')
  return new OsmosisError('invalid_dataset', [`Invalid dataset ${file}:`, ...lines].join('\n'))
}
