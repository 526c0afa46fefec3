import path from 'node:path'
import { createInterface } from 'node:readline/promises'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  lockRun,
  openRun,
  openRunFolder,
  regradeRun,
  wholeGroups,
  type RunReader,
} from '@osmosis/eval'
import { formatCount, type ItemEvent } from '@osmosis/eval/analysis'

import {
  answerTo,
  isInteractive,
  printError,
  printJson,
  redaction,
  standardError,
  standardInput,
} from '../../command/command-context.ts'
import { interruptedExitCode } from '../../command/exit-codes.ts'
import { printReport } from '../../command/output/report.ts'
import { abortOnInterrupt } from '../../command/process.ts'
import { printMessage } from '../../command/terminal-text.ts'
import { invalid, invalidEntrypoint } from '../../command/wrong-use.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import type { EvalRegradeFlags } from '../regrade.ts'
import { filterItems, itemsOf } from '../show/shown-items.ts'
import { findRun, runsRoot, openShownRun } from '../show/shown-run.ts'
import { GraderProcess, type GraderProcessOptions, graderOptions } from './grader-process.ts'
import { ownFiles } from './own-files.ts'
import { regradeDocument, regradeReport, type EndedRegrading } from './regrade-report.ts'

/** What is known before the grader is loaded. */
interface Preparation {
  readonly run: RunReader
  readonly events: readonly ItemEvent[]
  readonly options: GraderProcessOptions
}

/** The name of a grading, under which no other process stores one until the lock is released. */
interface ReservedGrading {
  readonly name: string
  readonly lock: Awaited<ReturnType<typeof lockRun>>
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
    return await gradeReserved(await prepare(run, flags), flags, interrupt.signal)
  } catch (error) {
    // Grades that cannot be stored are lost, and that is no end that the user wanted.
    const isLoss = isOsmosisError(error) && error.code === 'storage_error'
    if (interrupt.signal.aborted && !isLoss) return interruptedExitCode
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
  const { regrading } = await grade(await prepare(run, {}), pageGrading, signal)
  const [first] = regrading.grades
  if (first !== undefined && regrading.grades.every(({ error }) => error !== null)) {
    throw invalidEntrypoint(`The grader failed for every rollout: ${first.error}`)
  }
  await run.replaceGrades(pageGrading, regrading.grades)
  return pageGrading
}

async function prepare(run: RunReader, flags: EvalRegradeFlags): Promise<Preparation> {
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
  return { run, events, options }
}

/**
 * Reserves the name of a grading, because another process may grade the same run in the meantime.
 *
 * @throws OsmosisError with code `invalid_config` for a bad name, and without a yes for one that exists; `run_locked` while another
 * process grades under it
 */
async function reserveGrading(
  { run, options }: Preparation,
  flags: EvalRegradeFlags,
  signal: AbortSignal,
): Promise<ReservedGrading> {
  const isTaken = async (name: string): Promise<boolean> => (await run.gradings()).includes(name)
  const { as } = flags
  if (as !== undefined) {
    // Refuses what cannot be a name.
    await run.grades(as)
    const lock = await lockGrading(run, as)
    if (lock === undefined) {
      throw new OsmosisError(
        'run_locked',
        `Another process grades ${run.name} as ${as}. Wait until it has ended, or pass another name with --as.`,
      )
    }
    try {
      if (await isTaken(as)) {
        await confirm(`The grading ${as} exists already. Replace it?`, flags, signal)
      }
      return { name: as, lock }
    } catch (error) {
      await lock.release()
      throw error
    }
  }
  const { grader, entrypoint } = options.order
  const stem = path
    .parse(moduleFile('grader', splitSpec(grader ?? entrypoint ?? '').file))
    .name.replaceAll(/[^\w.-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
  for (let number = 1; ; number += 1) {
    const name = `${stem || 'grades'}-${number}`
    const lock = await lockGrading(run, name)
    if (lock === undefined) continue
    if (!(await isTaken(name))) return { name, lock }
    await lock.release()
  }
}

/** Undefined while another process grades under this name. */
async function lockGrading(
  run: RunReader,
  name: string,
): Promise<ReservedGrading['lock'] | undefined> {
  try {
    return await lockRun(`${run.location}@${name}`)
  } catch (error) {
    if (isOsmosisError(error) && error.code === 'run_locked') return undefined
    throw error
  }
}

async function gradeReserved(
  prepared: Preparation,
  flags: EvalRegradeFlags,
  signal: AbortSignal,
): Promise<number> {
  const { name, lock } = await reserveGrading(prepared, flags, signal)
  try {
    const ended = await grade(prepared, name, signal)
    const { grades, missing, damaged } = ended.regrading
    if (grades.length > 0) await prepared.run.replaceGrades(name, grades)
    if (flags.json) printJson(regradeDocument(ended))
    else printReport(regradeReport(ended))
    if (signal.aborted) return interruptedExitCode
    const isGraded = grades.some(({ error }) => error === null)
    return missing.length + damaged.length > 0 || !isGraded ? 1 : 0
  } finally {
    await lock.release()
  }
}

async function grade(
  { run, events: selected, options }: Preparation,
  grading: string,
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
    const said = (await answerTo(lines, `${question} [y/N] `, signal)) ?? 'no'
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
