import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { readEvalConfig, readRowTexts, type RunReader } from '@osmosis/eval'
import {
  formatCount,
  formatQuantity,
  type ItemEvent,
  type RunManifest,
} from '@osmosis/eval/analysis'

import { resolvePath, standardError, standardOutput } from '../../command/command-context.ts'
import { printMessage } from '../../command/terminal-text.ts'
import { invalid } from '../../command/wrong-use.ts'
import { digestOf } from '../../inputs/run-inputs.ts'
import type { EvalExportFlags } from '../export.ts'
import { filterItems, itemsOf } from '../show/shown-items.ts'
import { findRun, openShownRun, runsRoot, type ShownRun } from '../show/shown-run.ts'
import { atifDocuments, csvLines, sftLines } from './export-formats.ts'
import { junitLines, testCases } from './junit-report.ts'
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
  assertDistinct([atif, ...files])
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
      printMessage(`warning: not a valid document: ${problem}`)
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

/** @throws OsmosisError with code `invalid_config` when two exports have the same place */
function assertDistinct(places: readonly (string | undefined)[]): void {
  const files = places.filter((place) => place !== undefined).filter((place) => place !== '-')
  const written = files.map((file) => resolvePath(file))
  const twice = written.find((place, at) => written.indexOf(place) !== at)
  if (twice === undefined) return
  throw invalid(`Two exports would be written to ${twice}. Pass another place for one of them.`)
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

/**
 * The rows of the dataset that items are about, once each and in its order, as JSON.
 *
 * @param file - the dataset; undefined: where the run found it
 * @throws OsmosisError with code `invalid_config` when the dataset is not what the run had; `invalid_dataset`
 */
async function rowTexts(
  { name, reader: { manifest } }: ShownRun,
  events: readonly ItemEvent[],
  file: string | undefined,
): Promise<string[]> {
  const wanted = new Set(events.map(({ source_row_index: row }) => row))
  const { dataset } = manifest.inputs
  if (dataset.sha256 === '') {
    throw invalid(
      `A program passed the rows of ${name} to train(), so the run names no file that has them. Write them from that program.`,
    )
  }
  const places = file === undefined ? await placesOf(manifest) : [resolvePath(file)]
  for (const place of places) {
    if (!existsSync(place) || (await digestOf([place])) !== dataset.sha256) continue
    return (await readRowTexts(place)).filter((_, row) => wanted.has(row))
  }
  throw invalid(
    `The rows of ${name} are in its dataset ${dataset.name}, which was moved or changed since. Pass it as it was, under its name, with --dataset <file>. The command looked for it as ${places.join(', ')}.`,
  )
}

/** Where the dataset of a run may be. */
async function placesOf({ inputs, provenance }: RunManifest): Promise<string[]> {
  const { root, resume, config } = provenance
  const folders = [resume?.folder, root].filter((folder) => folder !== undefined)
  const named = folders.map((folder) => path.resolve(folder, inputs.dataset.name))
  if (config === null || root === undefined) return [...new Set(named)]
  // A config that was removed or changed names no dataset.
  const read = await readEvalConfig(path.resolve(root, config)).catch(() => undefined)
  return [...new Set([...(read === undefined ? [] : [read.experiment.datasetFile]), ...named])]
}
