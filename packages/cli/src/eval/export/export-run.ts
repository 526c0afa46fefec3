import { invalid } from '../../command/exit-codes.ts'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { formatCount, formatQuantity, type RunReader } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'

import {
  printError,
  standardError,
  standardOutput,
  resolvePath,
} from '../../command/command-context.ts'
import type { EvalExportFlags } from '../export.ts'
import { findRun, runsRoot, openShownRun, type ShownRun } from '../show/shown-run.ts'
import { filterItems, itemsOf } from '../show/shown-items.ts'
import { csvLines, atifDocuments, sftLines } from './export-formats.ts'
import { junitLines, testCases } from './junit-report.ts'
import { rowTexts } from './run-rows.ts'
import { writeTexts } from './write-texts.ts'

/** What an export omitted, and why. */
class LeftOut {
  readonly #counts = new Map<string, number>()
  /** Whether a part of the run cannot be read. */
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
 * Exports a run to formats of other programs. Resolves with the exit code: 1 when a requested part is
 * missing or damaged, else 0.
 *
 * @throws OsmosisError with code `invalid_config` for invalid input and existing files; `damaged_run`, `storage_error`
 */
export async function evalExportCommand(name: string, flags: EvalExportFlags): Promise<number> {
  const { atif, csv, sft, junit, rows, force = false } = flags
  const files = [csv, sft, junit, rows]
  if (atif === undefined && files.every((file) => file === undefined)) {
    throw invalid(
      'Pass what to export: --atif <folder>, --csv <file>, --sft <file>, --junit <file> or --rows <file>.',
    )
  }
  const toStdout = files.filter((file) => file === '-').length
  if (toStdout > 1)
    throw invalid('Only one of --csv, --sft, --junit and --rows can be written to stdout.')
  for (const file of files) assertNewFile(file, force)
  await assertEmptyFolder(atif, force)
  const run = await openExported(name, flags)
  const say = toStdout > 0 ? standardError() : standardOutput()
  let isWhole = true
  const report = (file: string, count: number, noun: string, leftOut = new LeftOut()): void => {
    if (leftOut.isDamage) isWhole = false
    say.write(`${file === '-' ? 'stdout' : file}: ${formatQuantity(count, noun)}${leftOut.text}\n`)
  }
  const events = await eventsOf(run, flags.filter)
  if (csv !== undefined) {
    await writeTexts(csv, csvLines(events, run.table))
    report(csv, events.length, 'rollout')
  }
  if (atif !== undefined) {
    const { count, leftOut } = await writeDocuments(run.reader, events, atif)
    report(atif, count, 'document', leftOut)
  }
  if (sft !== undefined) {
    const chosen = flags.filter === undefined ? await eventsOf(run, 'is:passed') : events
    const leftOut = new LeftOut()
    let count = 0
    const lines = conversations(run.reader, chosen, leftOut, (added) => (count += added))
    await writeTexts(sft, lines)
    report(sft, count, 'conversation', leftOut)
  }
  if (junit !== undefined) {
    const cases = testCases(run, flags.filter === undefined ? undefined : events)
    await writeTexts(junit, junitLines(run, cases))
    report(junit, cases.length, 'test case')
  }
  if (rows !== undefined) {
    const texts = await rowTexts(run, events, flags.dataset)
    await writeTexts(
      rows,
      texts.map((text) => `${text}\n`),
    )
    report(rows, texts.length, 'row')
  }
  return isWhole ? 0 : 1
}

async function openExported(name: string, { grading, output }: EvalExportFlags): Promise<ShownRun> {
  const { location, variant } = await findRun(name, await runsRoot(output))
  if (grading !== undefined && variant !== undefined && grading !== variant) {
    throw invalid(`Pass either --grading ${grading} or ${name}: they name two gradings.`)
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
      if (event.trajectory_place === null) leftOut.add('without model calls')
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
      if (event.sample_place === null) leftOut.add('without samples')
      else leftOut.addDamage(`with ${stored.state} samples`)
      continue
    }
    const { lines, withoutCalls } = sftLines(event, stored.value)
    if (withoutCalls > 0) leftOut.add('that never called the policy', withoutCalls)
    onWritten(lines.length)
    yield* lines
  }
}

/** @throws OsmosisError with code `invalid_config` for an existing file */
function assertNewFile(file: string | undefined, force: boolean): void {
  if (file === undefined || file === '-' || force || !existsSync(resolvePath(file))) return
  throw invalid(`${file} exists already. Pass --force to replace it.`)
}

/** @throws OsmosisError with code `invalid_config` for a folder that is not empty */
async function assertEmptyFolder(folder: string | undefined, force: boolean): Promise<void> {
  if (folder === undefined || force || !existsSync(resolvePath(folder))) return
  const entries = await readdir(resolvePath(folder)).catch(() => ['a file'])
  if (entries.length === 0) return
  throw invalid(
    `${folder} exists already and is not an empty folder. Pass --force to write into it.`,
  )
}
