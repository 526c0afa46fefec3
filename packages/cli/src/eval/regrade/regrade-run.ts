import path from 'node:path'
import { createInterface } from 'node:readline/promises'

import { openRun, openRunFolder, regradeRun, wholeGroups, type RunReader } from '@osmosis/eval'
import { formatCount, type ItemEvent } from '@osmosis/eval/analysis'

import { interruptedExitCode } from '../../command/exit-codes.ts'
import { invalid, invalidEntrypoint } from '../../command/wrong-use.ts'
import { abortOnInterrupt } from '../../command/process.ts'
import {
  isInteractive,
  printError,
  printJson,
  redaction,
  standardError,
  standardInput,
} from '../../command/command-context.ts'
import { printReport } from '../../command/output/report.ts'
import { printMessage } from '../../command/terminal-text.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import type { EvalRegradeFlags } from '../regrade.ts'
import { findRun, runsRoot, openShownRun } from '../show/shown-run.ts'
import { filterItems, itemsOf } from '../show/shown-items.ts'
import { ownFiles } from './own-files.ts'
import { GraderProcess, type GraderProcessOptions, graderOptions } from './grader-process.ts'
import { regradeDocument, regradeReport, type EndedRegrading } from './regrade-report.ts'

/** What is known before the grader is loaded. */
interface Preparation {
  readonly run: RunReader
  readonly flags: EvalRegradeFlags
  readonly grading: string
  readonly events: readonly ItemEvent[]
  readonly options: GraderProcessOptions
}

/**
 * Grades the stored samples of a run again. Resolves with the exit code: 0 when all of them were graded, 1
 * when stored samples are missing or damaged, or the grader failed for every rollout, 130 after Ctrl-C,
 * which stores the grades so far.
 *
 * @throws OsmosisError with code `invalid_config` or `invalid_entrypoint` for invalid input, `judge_failed`
 * when its judge refuses every request, which stores nothing, `damaged_run`, `storage_error`
 */
export async function evalRegradeCommand(name: string, flags: EvalRegradeFlags): Promise<number> {
  const { location, variant } = await findRun(name, await runsRoot(flags.output))
  if (variant !== undefined) {
    throw invalid(`A run is graded again as a whole: omit @${variant}.`)
  }
  const run = await openRun(location)
  const interrupt = abortOnInterrupt()
  try {
    return await gradeOnce(await prepare(run, flags, interrupt.signal), interrupt.signal)
  } catch (error) {
    if (interrupt.signal.aborted) return interruptedExitCode
    throw error
  } finally {
    interrupt.release()
  }
}

/** Whether the page can grade a run: its entrypoint is one of the workspace in which the command was started. */
export async function canRegrade(location: string): Promise<boolean> {
  return (await ownFiles(await openRunFolder(location))).entrypoint !== null
}

/** The grading that the page makes; the next one replaces it. */
const pageGrading = 'edited'

/**
 * Grades the stored samples of a run again with its grader as the file is now, for the page. Resolves with the name of
 * the grading.
 *
 * @throws OsmosisError as {@link evalRegradeCommand}; `invalid_entrypoint` also when the grader fails for every rollout
 */
export async function regradeForPage(location: string): Promise<string> {
  const run = await openRun(location)
  const { signal } = new AbortController()
  const prepared = await prepare(run, { as: pageGrading, yes: true }, signal)
  const { regrading } = await grade(prepared, signal)
  const [first] = regrading.grades
  if (first !== undefined && regrading.grades.every(({ error }) => error !== null)) {
    throw invalidEntrypoint(`The grader failed for every rollout: ${first.error}`)
  }
  await run.replaceGrades(pageGrading, regrading.grades)
  return pageGrading
}

async function prepare(
  run: RunReader,
  flags: EvalRegradeFlags,
  signal: AbortSignal,
): Promise<Preparation> {
  const shown = await openShownRun({ location: run.location, variant: undefined })
  const items = flags.filter === undefined ? itemsOf(shown) : await filterItems(shown, flags.filter)
  const events = items.map(({ event }) => event)
  if (events.length === 0) {
    throw invalid(
      flags.filter === undefined
        ? `No rollout of the run ${run.name} has ended yet.`
        : `No rollout of the run ${run.name} matches '${flags.filter}'.`,
    )
  }
  const options = await graderOptions(run, flags)
  const { grader, entrypoint } = options.order
  const file = moduleFile('grader', splitSpec(grader ?? entrypoint ?? '').file)
  const grading = await gradingName(run, flags, file, signal)
  return { run, flags, grading, events, options }
}

async function gradingName(
  run: RunReader,
  flags: EvalRegradeFlags,
  file: string,
  signal: AbortSignal,
): Promise<string> {
  const taken = new Set(await run.gradings())
  const { as } = flags
  if (as === undefined) {
    const stem = path
      .parse(file)
      .name.replaceAll(/[^\w.-]/g, '-')
      .replace(/^[^A-Za-z0-9]+/, '')
    let number = 1
    while (taken.has(`${stem || 'grades'}-${number}`)) number += 1
    return `${stem || 'grades'}-${number}`
  }
  if (taken.has(as)) await confirm(`The grading ${as} exists already. Replace it?`, flags, signal)
  return as
}

async function gradeOnce(prepared: Preparation, signal: AbortSignal): Promise<number> {
  const ended = await grade(prepared, signal)
  const { run, flags, grading } = prepared
  const { regrading } = ended
  if (regrading.grades.length > 0) await run.replaceGrades(grading, regrading.grades)
  if (flags.json) printJson(regradeDocument(ended))
  else printReport(regradeReport(ended))
  if (signal.aborted) return interruptedExitCode
  const { grades, missing, damaged } = regrading
  const isGraded = grades.some(({ error }) => error === null)
  return missing.length + damaged.length > 0 || !isGraded ? 1 : 0
}

async function grade(
  { run, grading, events: selected, options }: Preparation,
  signal: AbortSignal,
): Promise<EndedRegrading> {
  const grader = new GraderProcess(options)
  const onAbort = (): void => grader.close()
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    signal.throwIfAborted()
    const { name, warnings, gradesGroups } = await grader.load()
    const events = gradesGroups ? wholeGroups(run, selected) : selected
    for (const warning of warnings) printMessage(`warning: ${warning}`)
    const startedAt = performance.now()
    const progress = new CountLine(events.length)
    const regrading = await regradeRun(run, {
      events,
      gradesGroups,
      signal,
      grade: async (rollouts) => redaction().data(await grader.grade(rollouts)),
      onGrade: () => progress.count(),
    })
    progress.end()
    const durationMs = performance.now() - startedAt
    return { run, grading, grader: name, regrading, events, durationMs }
  } finally {
    signal.removeEventListener('abort', onAbort)
    grader.close()
  }
}

/** @throws OsmosisError with code `invalid_config` without a yes */
async function confirm(
  question: string,
  { yes, json }: EvalRegradeFlags,
  signal: AbortSignal,
): Promise<void> {
  if (yes) return
  if (json || !isInteractive()) {
    throw invalid(`${question} No terminal is available for the answer: pass --yes.`)
  }
  const lines = createInterface({ input: standardInput(), output: standardError() })
  // The terminal sends Ctrl-C to the line reader.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  try {
    const said = await lines.question(`${question} [y/N] `, { signal })
    if (!/^y(?:es)?$/i.test(said.trim())) throw invalid('Nothing was changed.')
  } finally {
    lines.close()
  }
}

/** The progress of a grading, on a terminal. */
class CountLine {
  readonly #total: number
  #done = 0
  #shownAt = 0

  constructor(total: number) {
    this.#total = total
  }

  count(): void {
    this.#done += 1
    const now = performance.now()
    if (!standardError().isTTY || now - this.#shownAt < 100) return
    this.#shownAt = now
    const text = `Graded ${formatCount(this.#done)} of ${formatCount(this.#total)}`
    printError(`\r${text}`)
  }

  end(): void {
    if (this.#shownAt > 0) printError('\r\u001B[K')
  }
}
