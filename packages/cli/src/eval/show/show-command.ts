import path from 'node:path'

import { openRun, readTrainingJournal, trainingRuns } from '@osmosis/eval'
import {
  formatCount,
  formatQuantity,
  rowHistories,
  type RowHistory,
  runStatistics,
  stepRows,
  toRunDocument,
} from '@osmosis/eval/analysis'

import { printError, printJson, printOut } from '../../command/command-context.ts'
import { printReport, reportText } from '../../command/output/report.ts'
import { outputWidth } from '../../command/terminal-text.ts'
import { invalid } from '../../command/wrong-use.ts'
import type { EvalShowFlags } from '../show.ts'
import { findTraining, type FoundTraining } from '../training/find-training.ts'
import { rowReport, trainingReport } from '../training/training-report.ts'
import { itemTable, rolloutText } from './rollout-text.ts'
import { runReport } from './run-report.ts'
import { runSummary } from './run-summary.ts'
import { filterItems, itemName, namedItems, type ShownItem } from './shown-items.ts'
import {
  findRun,
  isItemName,
  openShownRun,
  reportedRun,
  type ReportedRun,
  runsRoot,
  type ShownRun,
} from './shown-run.ts'

/**
 * Shows a run: its summary or report, some of its rollouts, or one transcript; or a training. Resolves with the exit
 * code.
 *
 * @throws OsmosisError with code `invalid_config` for a run or rollout that does not exist, and for an
 * invalid filter; `damaged_run`
 */
export async function evalShowCommand(
  name: string | undefined,
  rollout: string | undefined,
  flags: EvalShowFlags,
): Promise<number> {
  const root = await runsRoot(flags.output)
  // `eval show 12.1` is about the newest run.
  const isItem = rollout === undefined && name !== undefined && isItemName(name)
  const training = name === undefined || isItem ? undefined : await findTraining(name, root)
  if (training !== undefined && name !== undefined) {
    const { json = false, details = false } = flags
    await showTraining(training, { command: name, row: rollout, json, details })
    return 0
  }
  const run = await openShownRun(await findRun(isItem ? 'latest' : (name ?? 'latest'), root))
  const item = isItem ? name : rollout
  const filter = filterOf(flags)
  if (item !== undefined) {
    if (filter !== undefined) {
      throw invalid('Pass a rollout, or --failed, --filter and --sort.')
    }
    await showItems(namedItems(run, item), flags)
  } else if (filter === undefined) {
    await showReport(run, flags)
  } else {
    await listItems(run, await filterItems(run, filter), flags)
  }
  return 0
}

function filterOf({ failed, filter, sort }: EvalShowFlags): string | undefined {
  const parts = [...(failed === true ? ['is:notpassed'] : []), filter, sort && `sort:${sort}`]
  const given = parts.filter((part) => part !== undefined)
  return given.length === 0 ? undefined : given.join(' ')
}

async function showReport(run: ShownRun, { json, details }: EvalShowFlags): Promise<void> {
  const reported = reportedRun(run)
  const width = outputWidth()
  if (json === true) printJson(reportDocument(reported))
  else if (details === true) print(runReport(reported, width))
  else print(runSummary(reported, { width, showPlan: true }))
}

async function listItems(
  run: ShownRun,
  items: readonly ShownItem[],
  { json }: EvalShowFlags,
): Promise<void> {
  if (json === true) {
    printJson({ run: run.name, count: items.length, items: items.map(itemDocument) })
    return
  }
  const [first] = items
  if (first !== undefined) printReport([[itemTable(items)]])
  const found = `Found ${formatCount(items.length)} of ${formatQuantity(run.table.size, 'rollout')}.`
  const next =
    first === undefined
      ? found
      : {
          command: ['eval', 'show', run.command, itemName(first)],
          label: `${found} Read the first:`,
        }
  printError(`${reportText([[next]])}\n`)
}

/** One of them; of several the first that did not pass, behind a list of all. */
async function showItems(
  items: readonly ShownItem[],
  { json, full }: EvalShowFlags,
): Promise<void> {
  if (json === true) {
    const [first] = items
    printJson({ run: first?.run.name, items: await Promise.all(items.map(rolloutDocument)) })
    return
  }
  const chosen = items.find(({ run, item }) => !run.table.passed(item)) ?? items[0]
  if (chosen === undefined) throw new TypeError('Named items are at least one.')
  if (items.length > 1) print(`${reportText([[itemTable(items)]])}\n`)
  print(await rolloutText(chosen, { width: outputWidth(), full: full === true }))
}

function reportDocument({ state, shown: { reader, name, table } }: ReportedRun): object {
  return {
    name,
    location: reader.location,
    ...state,
    manifest: reader.manifest,
    ...runStatistics(table),
  }
}

function itemDocument(shown: ShownItem): object {
  const { run, item, event } = shown
  return {
    item: itemName(shown),
    value: run.table.value(item),
    passed: run.table.passed(item),
    flags: run.table.flags(item),
    event,
  }
}

async function rolloutDocument(shown: ShownItem): Promise<object> {
  const { reader } = shown.run
  const said = await reader.trajectories(shown.event)
  const stack = await reader.stack(shown.event)
  const samples = said.state === 'found' ? said.value : {}
  return {
    ...itemDocument(shown),
    ...(stack === undefined ? {} : { stack }),
    transcript: said.state,
    samples,
  }
}

function print(text: string): void {
  printOut(`${text}\n`)
}

/** What to show of a training. */
interface ShowTrainingOptions {
  /** Its name in commands, as the user gave it. */
  readonly command: string
  /** A row, by its position in the dataset; undefined for the whole training. */
  readonly row: string | undefined
  readonly json: boolean
  readonly details: boolean
}

/**
 * Prints a training: its figures over the steps, or one row over the steps.
 *
 * @throws OsmosisError with code `invalid_config` for a row that no step has drawn, `damaged_run`
 */
async function showTraining(
  training: FoundTraining,
  { command, row, json, details }: ShowTrainingOptions,
): Promise<void> {
  const records = readTrainingJournal(training.location)
  if (row !== undefined) {
    const history = await historyOf(training, row)
    if (json) printJson(history)
    else printReport(rowReport(training.name, history))
  } else if (json) printJson({ name: training.name, records })
  else printReport(trainingReport(training, records, { details, command }))
}

async function historyOf({ name, location }: FoundTraining, row: string): Promise<RowHistory> {
  if (!/^\d+$/.test(row)) {
    throw invalid(
      `Of a training a row can be shown, by its position in the dataset, such as 12; got ${row}. An attempt is in a step: osmosis eval show ${name}/step-0001 ${row}`,
    )
  }
  const steps = readTrainingJournal(location).filter((record) => record.kind === 'step')
  const own = steps.filter((step) => step.rows.includes(Number(row)))
  const read = []
  for (const { step, run } of own) {
    const { manifest, sortedEvents } = await openRun(path.join(trainingRuns(location), run))
    read.push(stepRows(step, run, toRunDocument(manifest, sortedEvents)))
  }
  const found = rowHistories(read).find((history) => history.row === Number(row))
  if (found !== undefined) return found
  throw invalid(
    `No step of ${name} has drawn row ${row}: there are ${steps.length} steps, and rows count from 0.`,
  )
}
