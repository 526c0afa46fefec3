import { readFile, writeFile } from 'node:fs/promises'

import { ConcurrencyLimiter } from '@osmosis/runtime'
import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { agreementOf, evaluateRubric, type Agreement, type RubricScore } from '@osmosis/models'

import { choosePolicy, type ChosenPolicy } from '../../inputs/choose-policy.ts'
import { readEnvironment } from '../../inputs/environment.ts'
import { abortOnInterrupt, interruptedExitCode } from '../../command/interrupt.ts'
import { humanVerdict, readAnswers, type AnswerRow } from './answer-rows.ts'
import { rubricReport } from './rubric-report.ts'
import type { RubricFlags } from '../rubric.ts'
import {
  fromHere,
  namedHere,
  printError,
  printOut,
  protectData,
} from '../../command/surroundings.ts'

/** An answer and what came of it. */
export interface JudgedRow {
  readonly row: AnswerRow
  /** Null when the judge gave no score. */
  readonly scored: RubricScore | null
  readonly error: string | null
  /** What people found; null when they have not judged it, or are not asked. */
  readonly people: boolean | null
}

/** All of a file. */
export interface RubricResult {
  readonly model: string
  readonly rows: readonly JudgedRow[]
  readonly passThreshold: number
  /** Null when there is nothing to compare with. */
  readonly agreement: Agreement | null
}

/**
 * Scores a file of answers. Resolves with the exit code: 0 when all are scored, 1 when some are not, 2
 * for wrong use, 130 after Ctrl-C.
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
      `No row says what people found: --agree-with ${agreeWith} is no key of the rows or their metadata with pass or fail, true or false, or a score, and there are no tags.`,
    )
  }
  return { rubric, answers, passThreshold, judge: await openJudge(flags) }
}

async function openJudge({ apiKey, ...flags }: RubricFlags): Promise<ChosenPolicy> {
  if (apiKey === undefined) return choosePolicy(flags, readEnvironment())
  if (apiKey === '') throw invalid('The value of --api-key is empty.')
  // Errors and warnings about the key call it by the name of the flag.
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
        const asked = { votes, scoreMin, scoreMax, signal, model: judge.policy, ...limit }
        const scored = await evaluateRubric({ ...judged, ...asked })
        return { row, scored, error: null, people }
      } catch (error) {
        return { row, scored: null, error: errorMessage(error), people }
      } finally {
        release?.()
      }
    }),
  )
}

/** A judge that knows what people found would only agree. */
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
