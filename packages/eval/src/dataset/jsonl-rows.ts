import { parseExactJson, WrittenNumber } from './exact-json.ts'
import { DataProblem, noting, type RawRow } from './raw-row.ts'
import { type TextLine, readLines } from './read-lines.ts'
import { utf8Text } from './utf8-text.ts'

/** Reads JSON Lines: one object per line. Blank lines are skipped. */
export async function readJsonlRows(file: string, problems: string[]): Promise<RawRow[]> {
  const rows: RawRow[] = []
  for await (const line of readLines(file)) {
    const place = `line ${line.number}`
    const cells = noting(problems, place, () => parseLine(line))
    if (cells) rows.push({ place, cells })
  }
  return rows
}

/** Undefined for a blank line. */
function parseLine({ bytes }: TextLine): RawRow['cells'] | undefined {
  const text = utf8Text(bytes)
  if (text === undefined) throw new DataProblem('invalid UTF-8')
  if (text.trim() === '') return undefined
  const value = parseJson(text)
  if (isRecord(value)) return value
  throw new DataProblem('invalid JSONL row - top-level value must be an object')
}

function parseJson(text: string): unknown {
  try {
    return parseExactJson(text)
  } catch (cause) {
    throw new DataProblem(`invalid JSON - ${(cause as SyntaxError).message}`, { cause })
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  return !Array.isArray(value) && !(value instanceof WrittenNumber)
}
