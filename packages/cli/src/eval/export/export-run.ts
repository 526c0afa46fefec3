import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError, errorMessage } from '@osmosis/core'
import { formatCount, formatQuantity, type RunReader } from '@osmosis/eval'
import type { ItemEvent } from '@osmosis/eval/analysis'

import {
  printError,
  standardError,
  standardOutput,
  fromHere,
  printOut,
  type OutputStream,
} from '../../command/surroundings.ts'
import type { EvalExportFlags } from '../export.ts'
import { findRun, runsRoot, openShownRun, type ShownRun } from '../show/shown-run.ts'
import { filterItems, itemsOf } from '../show/shown-items.ts'
import { csvLines, atifDocuments, sftLines } from './export-formats.ts'

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
  const { atif, csv, sft, force = false } = flags
  if (atif === undefined && csv === undefined && sft === undefined) {
    throw invalid('Pass what to export: --atif <folder>, --csv <file> or --sft <file>.')
  }
  if (csv === '-' && sft === '-')
    throw invalid('Only one of --csv and --sft can be written to stdout.')
  assertNewFile(csv, force)
  assertNewFile(sft, force)
  await assertEmptyFolder(atif, force)
  const run = await openExported(name, flags)
  const say = csv === '-' || sft === '-' ? standardError() : standardOutput()
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
      if (event.at === null) leftOut.add('without model calls')
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
    const { lines, withoutCalls } = sftLines(event, stored.value)
    if (withoutCalls > 0) leftOut.add('that never called the policy', withoutCalls)
    onWritten(lines.length)
    yield* lines
  }
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}

/** Transcripts and datasets may be confidential. */
const fileMode = 0o600

/**
 * Writes texts to stdout for `-`, else to a file, which appears when it is complete.
 *
 * @throws OsmosisError with code `storage_error`
 */
async function writeTexts(
  file: string,
  texts: Iterable<string> | AsyncIterable<string>,
): Promise<void> {
  if (file === '-') {
    for await (const text of texts) {
      if (printOut(text)) continue
      if (!(await isDrained(standardOutput()))) return
    }
    return
  }
  const place = fromHere(file)
  const unfinished = `${place}.${randomUUID()}.tmp`
  try {
    await mkdir(path.dirname(place), { recursive: true })
    const handle = await open(unfinished, 'wx', fileMode)
    try {
      for await (const text of texts) await handle.appendFile(text)
    } finally {
      await handle.close()
    }
    await rename(unfinished, place)
  } catch (cause) {
    await rm(unfinished, { force: true })
    if (cause instanceof OsmosisError) throw cause
    const message = `Cannot write ${file}: ${errorMessage(cause)}`
    throw new OsmosisError('storage_error', message, { cause })
  }
}

/** Resolves with false when the reader has closed the pipe, as `| head` does. */
async function isDrained(output: OutputStream): Promise<boolean> {
  if ('errored' in output && isNotRead(output.errored)) return false
  try {
    await once(output, 'drain')
    return true
  } catch (error) {
    if (!isNotRead(error)) throw error
    return false
  }
}

function isNotRead(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EPIPE'
}

/** @throws OsmosisError with code `invalid_config` for an existing file */
function assertNewFile(file: string | undefined, force: boolean): void {
  if (file === undefined || file === '-' || force || !existsSync(fromHere(file))) return
  throw new OsmosisError('invalid_config', `${file} exists already. Pass --force to replace it.`)
}

/** @throws OsmosisError with code `invalid_config` for a folder that is not empty */
async function assertEmptyFolder(folder: string | undefined, force: boolean): Promise<void> {
  if (folder === undefined || force || !existsSync(fromHere(folder))) return
  const entries = await readdir(fromHere(folder)).catch(() => ['a file'])
  if (entries.length === 0) return
  throw new OsmosisError(
    'invalid_config',
    `${folder} exists already and is not an empty folder. Pass --force to write into it.`,
  )
}
