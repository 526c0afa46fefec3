import { OsmosisError } from '@osmosis/core'
import { formatCount, formatQuantity } from '@osmosis/eval'
import { runStatistics } from '@osmosis/eval/analysis'

import { printError, printOut } from '../../command/surroundings.ts'
import { outputWidth, withCommand } from '../../command/terminal-text.ts'
import type { EvalShowFlags } from '../show.ts'
import { otherAttempt, divergenceLines, sharedSample } from './divergence-text.ts'
import {
  findRun,
  isItemName,
  runsRoot,
  openReportedRun,
  openShownRun,
  type ReportedRun,
  type ShownRun,
} from './shown-run.ts'
import { itemLines, rolloutLines } from './rollout-text.ts'
import { findTraining } from '../training/find-training.ts'
import { showTraining } from '../training/show-training.ts'
import { runReport } from './run-report.ts'
import { runSummary } from './run-summary.ts'
import { filterItems, itemName, namedItems, type ShownItem } from './shown-items.ts'

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
    if (filter !== undefined) throw wrong('Pass a rollout, or --failed, --filter and --sort.')
    const items = namedItems(run, item)
    if (flags.diff === undefined) await showItems(items, flags)
    else await showDivergence(items, flags.diff, root, flags)
  } else if (flags.diff !== undefined) {
    throw wrong('--diff needs a rollout, such as osmosis eval show latest 12.1 --diff.')
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
  const reported = await openReportedRun(run)
  const width = outputWidth()
  if (json === true) printJson(reportDocument(reported))
  else if (details === true) print(await runReport(reported, width))
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
  if (items.length > 0) print(itemLines(items, outputWidth()).join('\n'))
  const of = `${formatCount(items.length)} of ${formatQuantity(run.table.size, 'rollout')}`
  const [first] = items
  const lines =
    first === undefined
      ? [`${of}.`]
      : withCommand(`${of}. One of them:`, ['eval', 'show', run.command, itemName(first)])
  printError(`${lines.join('\n')}\n`)
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
  const width = outputWidth()
  const chosen = firstFailing(items)
  const list = items.length === 1 ? [] : [...itemLines(items, width), '']
  print([...list, ...(await rolloutLines(chosen, { width, full: full === true }))].join('\n'))
}

async function showDivergence(
  items: readonly ShownItem[],
  name: true | string,
  root: string,
  { json, full }: EvalShowFlags,
): Promise<void> {
  const own = firstFailing(items)
  const other = await otherAttempt(own, name, root)
  if (json === true) {
    const sample = await sharedSample(own, other)
    const { divergence = null } = sample ?? {}
    printJson({ item: await rolloutDocument(own), other: await rolloutDocument(other), divergence })
    return
  }
  print(
    (await divergenceLines(own, other, { width: outputWidth(), full: full === true })).join('\n'),
  )
}

/** The first that did not pass, else the first. */
function firstFailing(items: readonly ShownItem[]): ShownItem {
  const [first] = items
  if (first === undefined) throw new TypeError('Named items are at least one.')
  return items.find(({ run, item }) => !run.table.passed(item)) ?? first
}

function reportDocument({ state, models }: ReportedRun): object {
  const [{ reader, name }] = models
  return {
    name,
    location: reader.location,
    ...state,
    manifest: reader.manifest,
    models: models.map(({ modelTag, table }) => ({
      model: table.document.model,
      model_tag: modelTag,
      ...runStatistics(table),
    })),
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

function wrong(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}

function printJson(document: object): void {
  print(JSON.stringify(document, null, 2))
}

function print(text: string): void {
  printOut(`${text}\n`)
}
