import { readFile, writeFile } from 'node:fs/promises'

import { errorMessage, isOsmosisError } from '@osmosis/core'
import { agreementOf, evaluateRubric } from '@osmosis/models'
import { ConcurrencyLimiter } from '@osmosis/server/execution'

import { invalid, interruptedExitCode } from '../../command/exit-codes.ts'
import { abortOnInterrupt } from '../../command/process.ts'
import { resolvePath, displayPath, printError, printOut } from '../../command/command-context.ts'
import { printMessage, withCommand } from '../../command/terminal-text.ts'
import type { RubricFlags } from '../rubric.ts'
import { choosePolicy, type ChosenPolicy } from '../../inputs/choose-policy.ts'
import { readEnvironment } from '../../command/environment.ts'
import { readAnswers } from './answer-file.ts'
import type { AnswerSource, JudgedRow } from './answer-rows.ts'
import { rubricReport, type RubricResult } from './rubric-report.ts'
import { readRunAnswers } from './run-answers.ts'

/**
 * Scores the answers of a file or a run. Resolves with the exit code: 0 when every answer has a score, 1 when not,
 * 130 after Ctrl-C.
 */
export async function rubricCommand(flags: RubricFlags): Promise<number> {
  const { judge, ...task } = await prepare(flags)
  const interrupt = abortOnInterrupt()
  try {
    const rows = await judgeAll(judge, task, flags, interrupt.signal)
    if (interrupt.signal.aborted) return interruptedExitCode
    const result = toResult(judge.name, rows, task)
    if (flags.output !== undefined) {
      const document = rubricReport(result, { ...flags, json: true })
      await writeResult(flags.output, `${document}\n`)
    }
    printOut(`${rubricReport(result, flags)}\n`)
    const missing = rows.filter(({ scored }) => scored === null).length
    // A judge that refuses every request has graded nothing.
    if (task.store !== undefined && missing < rows.length) {
      printError(`${withCommand('Scores stored:', await task.store(rows)).join('\n')}\n`)
    }
    if (missing > 0) {
      printMessage(`error: ${missing} of ${rows.length} answers have no score.`)
    }
    return missing > 0 ? 1 : 0
  } finally {
    interrupt.release()
    await judge[Symbol.asyncDispose]()
  }
}

async function writeResult(file: string, text: string): Promise<void> {
  try {
    await writeFile(resolvePath(file), text)
  } catch (error) {
    throw invalid(`Cannot write the result to ${file}: ${errorMessage(error)}`)
  }
}

interface Task extends AnswerSource {
  readonly rubric: string
}

async function prepare(flags: RubricFlags): Promise<Task & { readonly judge: ChosenPolicy }> {
  const { scoreMin, scoreMax } = flags
  if (scoreMin >= scoreMax) throw invalid('--score-min must be less than --score-max.')
  const rubric = await readRubric(flags.rubric)
  const source = await readSource(flags)
  return { rubric, ...source, judge: await openJudge(flags) }
}

async function readSource(flags: RubricFlags): Promise<AnswerSource> {
  const { dataset, run, filter, as } = flags
  if ((dataset === undefined) === (run === undefined)) {
    throw invalid(
      'Pass either --dataset <file> or --run <run>: the answers of one of them are judged.',
    )
  }
  if (run !== undefined) return readRunAnswers(run, flags)
  if (filter !== undefined || as !== undefined) {
    throw invalid('--filter and --as are about rollouts: pass --run <run> as well.')
  }
  return readAnswers(dataset ?? '', flags)
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
    return notEmpty(await readFile(displayPath(given.slice(1)), 'utf8'))
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
  { rubric, answers }: Task,
  { votes, scoreMin, scoreMax, maxInFlight, timeout }: RubricFlags,
  signal: AbortSignal,
): Promise<JudgedRow[]> {
  const slots = new ConcurrencyLimiter(maxInFlight)
  const limit = timeout === undefined ? {} : { timeoutMs: Math.ceil(timeout * 1000) }
  return Promise.all(
    answers.map(async (row): Promise<JudgedRow> => {
      let release: (() => void) | undefined
      try {
        release = await slots.acquire(signal)
        const { answer, originalInput, groundTruth, metadata } = row
        const judged = { rubric, answer, originalInput, groundTruth, metadata }
        const options = { votes, scoreMin, scoreMax, signal, model: judge.policy, ...limit }
        return { row, scored: await evaluateRubric({ ...judged, ...options }), error: null }
      } catch (error) {
        return { row, scored: null, error: errorMessage(error) }
      } finally {
        release?.()
      }
    }),
  )
}

function toResult(
  model: string,
  rows: readonly JudgedRow[],
  { passThreshold, show }: AnswerSource,
): RubricResult {
  const verdicts = rows.flatMap(({ row: { people }, scored }) =>
    scored === null || people === null ? [] : [{ judge: scored.score >= passThreshold, people }],
  )
  const agreement = verdicts.length === 0 ? null : agreementOf(verdicts)
  return { model, rows, passThreshold, agreement, ...(show === undefined ? {} : { show }) }
}
