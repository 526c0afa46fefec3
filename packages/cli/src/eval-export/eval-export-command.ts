import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { formatCount, formatQuantity, type RunReader } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'

import { findRun, runsRoot } from '../eval-show/find-run.ts'
import { filterItems, itemsOf } from '../eval-show/shown-items.ts'
import { openShownRun, type ShownRun } from '../eval-show/shown-run.ts'
import { csvLines } from './csv-table.ts'
import type { EvalExportFlags } from './eval-export-options.ts'
import { assertEmptyFolder, assertNewFile, writeTexts } from './export-file.ts'
import { atifDocuments, sftLines } from './sample-documents.ts'
import { printError, standardError, standardOutput } from '../surroundings.ts'

/** What was left out. */
class LeftOut {
  readonly #counts = new Map<string, number>()
  /** Something of the run cannot be read. */
  isDamage = false

  add(why: string, count = 1): void {
    this.#counts.set(why, (this.#counts.get(why) ?? 0) + count)
  }

  addDamage(why: string): void {
    this.isDamage = true
    this.add(why)
  }

  get text(): string {
    const counts = [...this.#counts].map(([why, count]) => `${formatCount(count)} ${why}`)
    return counts.length === 0 ? '' : `; left out: ${counts.join(', ')}`
  }
}

/**
 * Writes what a run holds in forms of other programs. Resolves with the exit code: 0, and 1 when some of
 * what was asked for is missing or damaged.
 *
 * @throws OsmosisError with code `invalid_config` for input that cannot be, and files that are there;
 * `damaged_run`, `storage_error`
 */
export async function evalExportCommand(name: string, flags: EvalExportFlags): Promise<number> {
  const { atif, csv, sft, force = false } = flags
  if (atif === undefined && csv === undefined && sft === undefined) {
    throw invalid('Say what to export: --atif <folder>, --csv <file> or --sft <file>.')
  }
  if (csv === '-' && sft === '-') throw invalid('One of --csv and --sft can go to stdout.')
  assertNewFile(csv, force)
  assertNewFile(sft, force)
  await assertEmptyFolder(atif, force)
  const run = await openExported(name, flags)
  const say = csv === '-' || sft === '-' ? standardError() : standardOutput()
  let isWhole = true
  const told = (file: string, count: number, noun: string, leftOut = new LeftOut()): void => {
    if (leftOut.isDamage) isWhole = false
    say.write(`${file === '-' ? 'stdout' : file}: ${formatQuantity(count, noun)}${leftOut.text}\n`)
  }
  const events = await eventsOf(run, flags.filter)
  if (csv !== undefined) {
    await writeTexts(csv, csvLines(events, run.table))
    told(csv, events.length, 'rollout')
  }
  if (atif !== undefined) {
    const { count, leftOut } = await writeDocuments(run.reader, events, atif)
    told(atif, count, 'document', leftOut)
  }
  if (sft !== undefined) {
    const chosen = flags.filter === undefined ? await eventsOf(run, 'is:passed') : events
    const leftOut = new LeftOut()
    let count = 0
    const lines = conversations(run.reader, chosen, leftOut, (added) => (count += added))
    await writeTexts(sft, lines)
    told(sft, count, 'conversation', leftOut)
  }
  return isWhole ? 0 : 1
}

async function openExported(name: string, { grading, output }: EvalExportFlags): Promise<ShownRun> {
  const { location, variant } = await findRun(name, await runsRoot(output))
  if (grading !== undefined && variant !== undefined && grading !== variant) {
    throw invalid(`Pass either --grading ${grading} or ${name}: a run has one of both.`)
  }
  return openShownRun({ location, variant: grading ?? variant })
}

async function eventsOf(run: ShownRun, filter: string | undefined): Promise<ItemEvent[]> {
  const items = filter === undefined ? itemsOf(run) : await filterItems(run, filter)
  return items.map(({ event }) => event)
}

async function writeDocuments(
  run: RunReader,
  events: readonly ItemEvent[],
  folder: string,
): Promise<{ count: number; leftOut: LeftOut }> {
  const leftOut = new LeftOut()
  let count = 0
  for (const event of events) {
    const stored = await run.trajectories(event)
    if (stored.state !== 'found') {
      if (event.at === null) leftOut.add('in which nothing was said')
      else leftOut.addDamage(`with a ${stored.state} transcript`)
      continue
    }
    const { documents, problems } = atifDocuments(event, stored.value)
    for (const problem of problems) {
      printError(`warning: not a valid document: ${problem}\n`)
      leftOut.addDamage('not valid')
    }
    for (const { name, text } of documents) await writeTexts(path.join(folder, name), [text])
    count += documents.length
  }
  return { count, leftOut }
}

async function* conversations(
  run: RunReader,
  events: readonly ItemEvent[],
  leftOut: LeftOut,
  onWritten: (count: number) => void,
): AsyncGenerator<string> {
  for (const event of events) {
    const stored = await run.graded(event)
    if (stored.state !== 'found') {
      if (event.sat === null) leftOut.add('without samples')
      else leftOut.addDamage(`with ${stored.state} samples`)
      continue
    }
    const { lines, unheard } = sftLines(event, stored.value)
    if (unheard > 0) leftOut.add('not heard at the policy', unheard)
    onWritten(lines.length)
    yield* lines
  }
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
