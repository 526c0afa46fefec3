import { readFile, writeFile } from 'node:fs/promises'

import { errorMessage, isOsmosisError, OsmosisError, lastAssistantText } from '@osmosis/core'
import { formatReward, formatShare } from '@osmosis/eval'
import { agreementOf, evaluateRubric, type Agreement, type RubricScore } from '@osmosis/models'
import { ConcurrencyLimiter } from '@osmosis/runtime'

import { interruptedExitCode } from '../../command/exit-codes.ts'
import { abortOnInterrupt } from '../../command/process.ts'
import {
  fromHere,
  namedHere,
  printError,
  printOut,
  protectData,
} from '../../command/surroundings.ts'
import type { RubricFlags } from '../rubric.ts'
import { choosePolicy, type ChosenPolicy } from '../../inputs/choose-policy.ts'
import { readEnvironment } from '../../inputs/environment.ts'

/** An answer and its score. */
interface JudgedRow {
  readonly row: AnswerRow
  /** Null when the judge gave no score. */
  readonly scored: RubricScore | null
  readonly error: string | null
  /** The human verdict; null without one, and without `--agree-with`. */
  readonly people: boolean | null
}

/** The scores of all answers of a file. */
interface RubricResult {
  readonly model: string
  readonly rows: readonly JudgedRow[]
  readonly passThreshold: number
  /** Null without human verdicts. */
  readonly agreement: Agreement | null
}

/**
 * Scores a file of answers. Resolves with the exit code: 0 when every answer has a score, 1 when not, 130
 * after Ctrl-C.
 */
export async function rubricCommand(flags: RubricFlags): Promise<number> {
  const { judge, ...task } = await prepare(flags)
  const interrupt = abortOnInterrupt()
  try {
    const rows = await judgeAll(judge, task, flags, interrupt.signal)
    if (interrupt.signal.aborted) return interruptedExitCode
    const result = toResult(judge.name, rows, task.passThreshold)
    if (flags.output !== undefined) {
      const document = rubricReport(result, { ...flags, json: true })
      await writeResult(flags.output, `${document}\n`)
    }
    printOut(`${rubricReport(result, flags)}\n`)
    const missing = rows.filter(({ scored }) => scored === null).length
    if (missing > 0) {
      printError(`error: ${missing} of ${rows.length} answers have no score.\n`)
    }
    return missing > 0 ? 1 : 0
  } finally {
    interrupt.release()
    await judge[Symbol.asyncDispose]()
  }
}

async function writeResult(file: string, text: string): Promise<void> {
  try {
    await writeFile(fromHere(file), text)
  } catch (error) {
    throw invalid(`Cannot write the result to ${file}: ${errorMessage(error)}`)
  }
}

interface Task {
  readonly rubric: string
  readonly answers: readonly AnswerRow[]
  readonly passThreshold: number
}

async function prepare(flags: RubricFlags): Promise<Task & { readonly judge: ChosenPolicy }> {
  const { scoreMin, scoreMax, agreeWith } = flags
  if (scoreMin >= scoreMax) throw invalid('--score-min must be less than --score-max.')
  const rubric = await readRubric(flags.rubric)
  const answers = await readAnswers(flags.dataset)
  protectData(answers)
  const passThreshold = flags.passThreshold ?? (scoreMin + scoreMax) / 2
  const judged = (row: AnswerRow): boolean =>
    agreeWith !== undefined && humanVerdict(row, agreeWith, passThreshold) !== null
  if (agreeWith !== undefined && !answers.some(judged)) {
    throw invalid(
      `No row has a human verdict: --agree-with must name a key of the rows or their metadata with pass or fail, true or false, or a score, or a tag; ${agreeWith} is neither.`,
    )
  }
  return { rubric, answers, passThreshold, judge: await openJudge(flags) }
}

async function openJudge({ apiKey, ...flags }: RubricFlags): Promise<ChosenPolicy> {
  if (apiKey === undefined) return choosePolicy(flags, readEnvironment())
  if (apiKey === '') throw invalid('The value of --api-key is empty.')
  // So that errors and warnings about the key name the flag.
  const name = '--api-key'
  return choosePolicy({ ...flags, apiKeyEnv: name }, { ...readEnvironment(), [name]: apiKey })
}

async function readRubric(given: string): Promise<string> {
  if (!given.startsWith('@')) return notEmpty(given)
  try {
    return notEmpty(await readFile(namedHere(given.slice(1)), 'utf8'))
  } catch (error) {
    if (isOsmosisError(error)) throw error
    throw invalid(`Cannot read the rubric ${given.slice(1)}: ${errorMessage(error)}`)
  }
}

function notEmpty(rubric: string): string {
  if (rubric.trim() === '') throw invalid('The rubric is empty.')
  return rubric
}

async function judgeAll(
  judge: ChosenPolicy,
  { rubric, answers, passThreshold }: Task,
  { agreeWith, votes, scoreMin, scoreMax, maxInFlight, timeout }: RubricFlags,
  signal: AbortSignal,
): Promise<JudgedRow[]> {
  const slots = new ConcurrencyLimiter(maxInFlight)
  const limit = timeout === undefined ? {} : { timeoutMs: Math.ceil(timeout * 1000) }
  return Promise.all(
    answers.map(async (row): Promise<JudgedRow> => {
      const people = agreeWith === undefined ? null : humanVerdict(row, agreeWith, passThreshold)
      let release: (() => void) | undefined
      try {
        release = await slots.acquire(signal)
        const { answer, originalInput, groundTruth } = row
        const metadata = withoutTag(row.metadata, agreeWith)
        const judged = { rubric, answer, originalInput, groundTruth, metadata }
        const options = { votes, scoreMin, scoreMax, signal, model: judge.policy, ...limit }
        const scored = await evaluateRubric({ ...judged, ...options })
        return { row, scored, error: null, people }
      } catch (error) {
        return { row, scored: null, error: errorMessage(error), people }
      } finally {
        release?.()
      }
    }),
  )
}

/** The judge must not see the human verdict. */
function withoutTag(
  metadata: AnswerRow['metadata'],
  tag: string | undefined,
): AnswerRow['metadata'] {
  if (metadata === null || tag === undefined) return metadata
  const { [tag]: _verdict, ...rest } = metadata
  return Object.keys(rest).length === 0 ? null : rest
}

function toResult(model: string, rows: readonly JudgedRow[], passThreshold: number): RubricResult {
  const verdicts = rows.flatMap(({ scored, people }) =>
    scored === null || people === null ? [] : [{ judge: scored.score >= passThreshold, people }],
  )
  const agreement = verdicts.length === 0 ? null : agreementOf(verdicts)
  return { model, rows, passThreshold, agreement }
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}

/** The scores as a table or as JSON. */
function rubricReport(result: RubricResult, { json }: Pick<RubricFlags, 'json'>): string {
  return json === true ? JSON.stringify(toDocument(result), null, 2) : toText(result)
}

interface Figures {
  readonly scored: number
  readonly mean: number | null
  readonly std: number | null
  readonly min: number | null
  readonly max: number | null
}

function figuresOf(rows: readonly JudgedRow[]): Figures {
  const scores = rows.flatMap(({ scored }) => scored?.score ?? [])
  if (scores.length === 0) return { scored: 0, mean: null, std: null, min: null, max: null }
  const mean = scores.reduce((sum, score) => sum + score, 0) / scores.length
  const squares = scores.reduce((sum, score) => sum + (score - mean) ** 2, 0)
  const std = scores.length < 2 ? null : Math.sqrt(squares / (scores.length - 1))
  return { scored: scores.length, mean, std, min: Math.min(...scores), max: Math.max(...scores) }
}

function toDocument({ model, rows, passThreshold, agreement }: RubricResult): object {
  return {
    model,
    ...figuresOf(rows),
    answers: rows.length,
    pass_threshold: passThreshold,
    agreement: agreement && {
      answers: agreement.answers,
      accuracy: agreement.accuracy,
      kappa: agreement.kappa,
      both_pass: agreement.bothPass,
      both_fail: agreement.bothFail,
      only_judge_passes: agreement.onlyJudgePasses,
      only_people_pass: agreement.onlyPeoplePass,
    },
    rows: rows.map(({ row, scored, error, people }) => ({
      label: row.label,
      score: scored?.score ?? null,
      explanation: scored?.explanation ?? null,
      votes: scored?.votes ?? [],
      error,
      people,
    })),
  }
}

function toText(result: RubricResult): string {
  const { model, rows, passThreshold, agreement } = result
  const { scored, mean, std, min, max } = figuresOf(rows)
  const table = [
    ['ANSWER', 'SCORE', 'VOTES', ...(agreement === null ? [] : ['PEOPLE']), 'WHY'],
    ...rows.map(({ row, scored: own, error, people }) => [
      row.label,
      own === null ? '-' : formatReward(own.score),
      own === null || own.votes.length < 2
        ? ''
        : own.votes.map((vote) => formatReward(vote.score)).join(' '),
      ...(agreement === null ? [] : [people === null ? '' : people ? 'pass' : 'fail']),
      (own?.explanation ?? `error: ${error}`).replaceAll(/\s+/g, ' '),
    ]),
  ]
  const widths = (table[0] ?? []).map((_head, column) =>
    Math.max(...table.map((cells) => cells[column]?.length ?? 0)),
  )
  const lines = table.map((cells) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  const spread = std === null ? '' : `, standard deviation ${formatReward(std)}`
  lines.push('', `Judge      ${model}`)
  if (mean !== null && min !== null && max !== null) {
    const range = `(min ${formatReward(min)}, max ${formatReward(max)}, ${scored} of ${rows.length} scored)`
    lines.push(`Score      ${formatReward(mean)}${spread}  ${range}`)
  }
  if (agreement !== null) {
    const { answers, accuracy, kappa, onlyJudgePasses, onlyPeoplePass } = agreement
    const beyond =
      kappa === null
        ? "Cohen's kappa is not defined: all verdicts are equal"
        : `Cohen's kappa ${kappa.toFixed(2)}`
    lines.push(
      `Agreement  ${formatShare(accuracy)} of ${answers} answers, ${beyond}`,
      `           only the judge passes ${onlyJudgePasses}, only people pass ${onlyPeoplePass} (pass: ${formatReward(passThreshold)} or more)`,
    )
  }
  return lines.join('\n')
}

/** One answer of a file. */
interface AnswerRow {
  /** Its id, else its line. */
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
async function readAnswers(file: string): Promise<AnswerRow[]> {
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

/** Returns a text when the line is invalid. */
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
 * The human verdict on an answer: a key of its row or metadata, or a tag among its `tags`; null without one.
 */
function humanVerdict(row: AnswerRow, tag: string, passThreshold: number): boolean | null {
  const { tags } = row.fields
  const value = row.fields[tag] ?? row.metadata?.[tag]
  if (value === undefined && Array.isArray(tags)) return tags.includes(tag)
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return value >= passThreshold
  return words.get(typeof value === 'string' ? value.trim().toLowerCase() : value) ?? null
}
