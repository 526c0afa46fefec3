import { isJsonObject } from '@osmosis/core/http'
import { invalid } from '../../command/exit-codes.ts'
import { readFile } from 'node:fs/promises'

import { errorMessage, lastAssistantText, OsmosisError } from '@osmosis/core'

import { displayPath, protectData } from '../../command/command-context.ts'
import type { RubricFlags } from '../rubric.ts'
import { verdictWord, type AnswerRow, type AnswerSource } from './answer-rows.ts'

const shownProblems = 5

/**
 * Reads a file of answers: JSON Lines with `messages`, `answer` or `solution_str`, and perhaps
 * `ground_truth` (or `label`), `original_input` (or `user_prompt`), `metadata` and `id` (or
 * `conversation_id`).
 *
 * @throws OsmosisError with code `invalid_dataset` that names up to five bad lines, `invalid_config` when no row has
 * the verdict that `--agree-with` names
 */
export async function readAnswers(file: string, flags: RubricFlags): Promise<AnswerSource> {
  const { agreeWith, passThreshold = (flags.scoreMin + flags.scoreMax) / 2 } = flags
  const problems: string[] = []
  const answers: AnswerRow[] = []
  const data: unknown[] = []
  for (const [index, line] of (await readText(file)).split('\n').entries()) {
    if (line.trim() === '') continue
    const fields = fieldsOf(line)
    const row =
      typeof fields === 'string' ? fields : toRow(fields, index + 1, { agreeWith, passThreshold })
    if (typeof row === 'string') problems.push(`line ${index + 1}: ${row}`)
    else answers.push(row)
    data.push(fields)
  }
  if (answers.length === 0 && problems.length === 0) problems.push('contains no answers')
  if (problems.length > 0) throw invalidAnswers(file, problems)
  if (agreeWith !== undefined && answers.every(({ people }) => people === null)) {
    throw invalid(
      `No row has a human verdict: --agree-with must name a key of the rows or their metadata with pass or fail, true or false, or a score, or a tag; ${agreeWith} is neither.`,
    )
  }
  protectData(data)
  return { answers, passThreshold }
}

function invalidAnswers(file: string, problems: readonly string[]): OsmosisError {
  const lines = problems.slice(0, shownProblems).map((problem) => `- ${problem}`)
  if (problems.length > shownProblems) lines.push('... (showing first 5 errors)')
  return new OsmosisError('invalid_dataset', [`Invalid answers ${file}:`, ...lines].join('\n'))
}

async function readText(file: string): Promise<string> {
  try {
    return (await readFile(displayPath(file), 'utf8')).replace(/^\uFEFF/, '')
  } catch (cause) {
    throw new OsmosisError('invalid_dataset', `Cannot read ${file}: ${errorMessage(cause)}`, {
      cause,
    })
  }
}

type Fields = Readonly<Record<string, unknown>>

/** Returns a text when the line is invalid. */
function fieldsOf(line: string): Fields | string {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (error) {
    return `invalid JSON - ${errorMessage(error)}`
  }
  return isJsonObject(value) ? value : 'must be an object'
}

/** Where the human verdicts are, and which scores pass. */
interface HumanVerdicts {
  readonly agreeWith: string | undefined
  readonly passThreshold: number
}

/** Returns a text when the line is invalid. */
function toRow(fields: Fields, number: number, verdicts: HumanVerdicts): AnswerRow | string {
  const answer = answerIn(fields)
  if (answer === undefined) return 'needs messages (a list), answer or solution_str (a text)'
  const metadata = isJsonObject(fields['metadata']) ? fields['metadata'] : null
  return {
    label: textIn(fields, 'id', 'conversation_id') ?? `line ${number}`,
    answer,
    originalInput: textIn(fields, 'original_input', 'user_prompt'),
    groundTruth: textIn(fields, 'ground_truth', 'label'),
    metadata: withoutTag(metadata, verdicts.agreeWith),
    people: humanVerdict(fields, metadata, verdicts),
  }
}

function answerIn({ messages, answer, solution_str: solution }: Fields): string | undefined {
  if (Array.isArray(messages)) return lastAssistantText({ messages })
  return [answer, solution].find((text) => typeof text === 'string')
}

function textIn(fields: Fields, ...keys: string[]): string | null {
  const value = keys.map((key) => fields[key]).find((one) => one !== undefined && one !== null)
  if (value === undefined) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** The judge must not see the human verdict. */
function withoutTag(metadata: Fields | null, tag: string | undefined): Fields | null {
  if (metadata === null || tag === undefined) return metadata
  const { [tag]: _verdict, ...rest } = metadata
  return Object.keys(rest).length === 0 ? null : rest
}

/**
 * The human verdict on an answer: a key of its row or metadata, or a tag among its `tags`; null without one.
 */
function humanVerdict(
  fields: Fields,
  metadata: Fields | null,
  { agreeWith: tag, passThreshold }: HumanVerdicts,
): boolean | null {
  if (tag === undefined) return null
  const { tags } = fields
  const value = fields[tag] ?? metadata?.[tag]
  if (value === undefined && Array.isArray(tags)) return tags.includes(tag)
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return value >= passThreshold
  return typeof value === 'string' ? verdictWord(value) : null
}
