import { lstat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { RunTable } from '@osmosis/eval/analysis'
import { writeFileAtomically } from '@osmosis/protocol/files'

import { readPage } from '../page-file.ts'
import { OpenRun } from '../runs/open-run.ts'
import { summarize } from '../runs/run-summaries.ts'
import type { RunView } from '../runs/run-view.ts'
import type {
  EmbeddedReport,
  EmbeddedTranscripts,
  ItemEnding,
  ItemName,
  Packed,
  RunAnswer,
  TranscriptAnswer,
} from '../wire.ts'

/** Options of {@link exportReport}. */
export interface ReportOptions {
  /** The folder of the run. */
  readonly run: string
  /** The re-grading that is opened first. Default: the run itself. */
  readonly variant?: string
  /** The HTML file to write; replaced if there is one. */
  readonly file: string
  /**
   * The transcripts in the report. `flagged`: of rollouts that did not pass or have a flag or a note, and of
   * a passed attempt at the same row to compare with. Default: `flagged`.
   */
  readonly transcripts?: 'flagged' | 'all' | 'none'
  /** Ends the work; nothing is written then. */
  readonly signal?: AbortSignal
}

/** A report that was written. */
export interface WrittenReport {
  /** Absolute. */
  readonly file: string
  readonly bytes: number
  readonly transcripts: number
  readonly rollouts: number
  /** Names of re-gradings. */
  readonly variants: readonly string[]
}

/**
 * Writes a run with its re-gradings as one HTML file that needs no server: the page of the viewer with its
 * data inside.
 *
 * @throws OsmosisError with code `damaged_run`, or `storage_error` when it cannot be written
 */
export async function exportReport(options: ReportOptions): Promise<WrittenReport> {
  const { variant = '', transcripts = 'flagged', signal } = options
  const run = await OpenRun.open(options.run)
  const { report, ...facts } = await packReport(run, variant, transcripts, signal)
  const html = (await readPage())
    .replace("connect-src 'self'", "connect-src 'none'")
    .replace('<!--data-->', () => dataElement(report))
  signal?.throwIfAborted()
  const file = path.resolve(options.file)
  const there = await lstat(file).catch(() => undefined)
  // Whoever reads a pipe, a device or the target of a link would not get a file that takes its place.
  const write = there?.isFile() === false ? writeFile : writeFileAtomically
  try {
    await write(file, html, { mode: 0o600 })
  } catch (cause) {
    const message = `Cannot write the report ${file}: ${errorMessage(cause)}`
    throw new OsmosisError('storage_error', message, { cause })
  }
  return { file, bytes: Buffer.byteLength(html), ...facts }
}

/** Escapes text of models so that it cannot end the script element or a line of JavaScript. */
function dataElement(report: EmbeddedReport): string {
  const json = JSON.stringify(report)
    .replaceAll('<', String.raw`\u003c`)
    .replaceAll('\u2028', String.raw`\u2028`)
    .replaceAll('\u2029', String.raw`\u2029`)
  return `<script type="application/json" id="embedded">${json}</script>`
}

const compress = promisify(gzip)

/** Transcripts per piece: few enough to open fast, and enough to compress well. */
const pieceSize = 64

/** The journal was truncated while the report was written. */
const lost: TranscriptAnswer = {
  state: 'missing',
  ending: { error: null, stack: null, rewards: {}, scoreErrors: {}, verdicts: {} },
}

type ChosenTranscripts = NonNullable<ReportOptions['transcripts']>

/**
 * Packs a run with everything that it can be compared with.
 *
 * @param variant - the one that is opened first; empty for the run itself
 */
async function packReport(
  run: OpenRun,
  variant: string,
  which: ChosenTranscripts,
  signal: AbortSignal | undefined,
): Promise<Omit<WrittenReport, 'file' | 'bytes'> & { readonly report: EmbeddedReport }> {
  const names = (await run.variants()).map((name) => name.slice(name.indexOf('@') + 1))
  const own = await viewOf(run, '')
  const regraded: RunView[] = []
  for (const name of names) regraded.push(await viewOf(run, name))
  const views = [own, ...regraded]
  const runs: Record<string, Packed<RunAnswer>> = {}
  for (const view of views) runs[view.name] = await pack(await run.answer(view))
  const items = chosenItems(views, which)
  const transcripts = await packTranscripts(run, own, items, signal)
  const endings: Record<string, Record<string, ItemEnding>> = {}
  const judged = await judgedItems(run, items)
  for (const view of views) {
    const others = view === own ? {} : await otherEndings(run, own, view, items)
    endings[view.name] = { ...others, ...(await endingsOf(run, view, judged)) }
  }
  return {
    report: {
      summary: await summarize(run, own.name),
      first: (variant === '' ? own : await viewOf(run, variant)).name,
      runs,
      transcripts: transcripts.embedded,
      endings,
    },
    transcripts: transcripts.found,
    rollouts: own.ended,
    variants: names,
  }
}

async function viewOf(run: OpenRun, variant: string): Promise<RunView> {
  const view = await run.view(variant)
  if (view === undefined) throw new OsmosisError('invalid_config', `The run has no @${variant}.`)
  return view
}

/**
 * The rollouts whose transcripts the report has, in the order of rows, so that attempts at a row are in one piece.
 *
 * @param views - the run itself, then its re-gradings
 */
function chosenItems(views: readonly RunView[], which: ChosenTranscripts): ItemName[] {
  const tables = views.map(({ document }) => new RunTable(document))
  const [own] = tables
  if (own === undefined || which === 'none') return []
  const { row, attempt } = own.document.columns
  const wanted = which === 'all' ? null : new Set(tables.flatMap(flaggedItems).map(String))
  return own.groups.flatMap(({ items }) =>
    items
      .map((item): ItemName => [row[item] ?? 0, attempt[item] ?? 0])
      .filter((name) => wanted === null || wanted.has(String(name))),
  )
}

/** Items that are worth a look, and for each of their rows a passed attempt to compare with. */
function flaggedItems(table: RunTable): ItemName[] {
  const { row, attempt } = table.document.columns
  return table.groups.flatMap(({ items }) => {
    const flagged = items.filter(
      (item) =>
        !table.passed(item) || table.flags(item).length > 0 || table.note(item) !== undefined,
    )
    const passed = items.find((item) => table.passed(item))
    const wanted = passed === undefined || flagged.length === 0 ? flagged : [...flagged, passed]
    return wanted.map((item): ItemName => [row[item] ?? 0, attempt[item] ?? 0])
  })
}

async function packTranscripts(
  run: OpenRun,
  view: RunView,
  items: readonly ItemName[],
  signal: AbortSignal | undefined,
): Promise<{ embedded: EmbeddedTranscripts; found: number }> {
  let found = 0
  const pieces: Packed<readonly TranscriptAnswer[]>[] = []
  for (let first = 0; first < items.length; first += pieceSize) {
    signal?.throwIfAborted()
    const piece: TranscriptAnswer[] = []
    for (const item of items.slice(first, first + pieceSize)) {
      const transcript = (await run.transcript(view, item)) ?? lost
      if (transcript.state === 'found') found += 1
      piece.push(transcript)
    }
    pieces.push(await pack(piece))
  }
  return { embedded: { pieceSize, items: items.map((item) => item.join('.')), pieces }, found }
}

async function otherEndings(
  run: OpenRun,
  view: RunView,
  regraded: RunView,
  items: readonly ItemName[],
): Promise<Record<string, ItemEnding>> {
  const others: Record<string, ItemEnding> = {}
  for (const item of items) {
    const ending = await run.ending(regraded, item)
    if (ending === undefined) continue
    if (JSON.stringify(ending) !== JSON.stringify(await run.ending(view, item)))
      others[item.join('.')] = ending
  }
  return others
}

/** Items with verdicts of reviewers that are not among these items. */
async function judgedItems(run: OpenRun, items: readonly ItemName[]): Promise<ItemName[]> {
  const held = new Set(items.map(String))
  return (await run.judged()).filter((item) => !held.has(String(item)))
}

async function endingsOf(
  run: OpenRun,
  view: RunView,
  items: readonly ItemName[],
): Promise<Record<string, ItemEnding>> {
  const endings: Record<string, ItemEnding> = {}
  for (const item of items) {
    const ending = await run.ending(view, item)
    if (ending !== undefined) endings[item.join('.')] = ending
  }
  return endings
}

async function pack<T>(value: T): Promise<Packed<T>> {
  return (await compress(JSON.stringify(value))).toString('base64')
}
