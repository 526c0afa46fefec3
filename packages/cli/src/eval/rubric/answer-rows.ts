import { readFile } from 'node:fs/promises'

import { errorMessage, lastAssistantText, OsmosisError } from '@osmosis/core'

import { namedHere } from '../../command/surroundings.ts'

/** One answer of a file. */
export interface AnswerRow {
  /** How results call it: its id, else its line. */
  readonly label: string
  readonly answer: string
  readonly originalInput: string | null
  readonly groundTruth: string | null
  readonly metadata: Readonly<Record<string, unknown>> | null
  /** All keys of the line. */
  readonly fields: Readonly<Record<string, unknown>>
}

const shownProblems = 5

/**
 * Reads a file of answers: JSON Lines with `messages`, `answer` or `solution_str`, and perhaps
 * `ground_truth` (or `label`), `original_input` (or `user_prompt`), `metadata` and `id` (or
 * `conversation_id`).
 *
 * @throws OsmosisError with code `invalid_dataset` that names up to five bad lines
 */
export async function readAnswers(file: string): Promise<AnswerRow[]> {
  const problems: string[] = []
  const rows: AnswerRow[] = []
  for (const [index, line] of (await readText(file)).split('\n').entries()) {
    if (line.trim() === '') continue
    const row = toRow(line, index + 1)
    if (typeof row === 'string') problems.push(`line ${index + 1}: ${row}`)
    else rows.push(row)
  }
  if (rows.length === 0 && problems.length === 0) problems.push('contains no answers')
  if (problems.length === 0) return rows
  const lines = problems.slice(0, shownProblems).map((problem) => `- ${problem}`)
  if (problems.length > shownProblems) lines.push('... (showing first 5 errors)')
  throw new OsmosisError('invalid_dataset', [`Invalid answers ${file}:`, ...lines].join('\n'))
}

async function readText(file: string): Promise<string> {
  try {
    return (await readFile(namedHere(file), 'utf8')).replace(/^\uFEFF/, '')
  } catch (cause) {
    throw new OsmosisError('invalid_dataset', `Cannot read ${file}: ${errorMessage(cause)}`, {
      cause,
    })
  }
}

/** A text says what is wrong. */
function toRow(line: string, number: number): AnswerRow | string {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (error) {
    return `invalid JSON - ${errorMessage(error)}`
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return 'must be an object'
  }
  const fields = value as Record<string, unknown>
  const answer = answerIn(fields)
  if (answer === undefined) return 'needs messages (a list), answer or solution_str (a text)'
  const { metadata } = fields
  const isObject = typeof metadata === 'object' && metadata !== null && !Array.isArray(metadata)
  return {
    label: textIn(fields, 'id', 'conversation_id') ?? `line ${number}`,
    answer,
    originalInput: textIn(fields, 'original_input', 'user_prompt'),
    groundTruth: textIn(fields, 'ground_truth', 'label'),
    metadata: isObject ? (metadata as Record<string, unknown>) : null,
    fields,
  }
}

function answerIn({ messages, answer, solution_str: solution }: Record<string, unknown>) {
  if (Array.isArray(messages)) return lastAssistantText({ messages })
  return [answer, solution].find((text) => typeof text === 'string')
}

function textIn(fields: Readonly<Record<string, unknown>>, ...keys: string[]): string | null {
  const value = keys.map((key) => fields[key]).find((one) => one !== undefined && one !== null)
  if (value === undefined) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}

const words = new Map<unknown, boolean>([
  ...['pass', 'passed', 'true', 'yes', 'good', 'correct'].map((word) => [word, true] as const),
  ...['fail', 'failed', 'false', 'no', 'bad', 'wrong'].map((word) => [word, false] as const),
])

/**
 * Whether people let an answer pass, by a key of its row or of its metadata, or by a tag among its
 * `tags`; null for one that nobody has judged.
 */
export function humanVerdict(row: AnswerRow, tag: string, passThreshold: number): boolean | null {
  const { tags } = row.fields
  const value = row.fields[tag] ?? row.metadata?.[tag]
  if (value === undefined && Array.isArray(tags)) return tags.includes(tag)
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return value >= passThreshold
  return words.get(typeof value === 'string' ? value.trim().toLowerCase() : value) ?? null
}
