import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

import { OsmosisError } from '@osmosis/core'
import { type RunDocument, RunTable } from '@osmosis/eval/analysis'

import { readPage } from '../page-file.ts'
import { OpenRun } from '../runs/open-run.ts'
import type { RunView } from '../runs/run-view.ts'
import { summarize } from '../runs/run-summaries.ts'
import type { EmbeddedReport, EmbeddedTranscripts, TranscriptAnswer } from '../wire.ts'

const compress = promisify(gzip)

/** Transcripts of one piece: few enough to open quickly, and enough to be small together. */
const pieceSize = 64

/** The journal has been cut off while the report is written. */
const lost: TranscriptAnswer = {
  state: 'missing',
  ending: { error: null, rewards: {}, scoreErrors: {} },
}

/** Options of {@link exportReport}. */
export interface ReportOptions {
  /** The folder of the run. */
  readonly run: string
  /** The HTML file to write; replaced if there is one. */
  readonly file: string
  /**
   * Which transcripts it holds. `flagged`: of rollouts that did not pass or have a sign or a note, and
   * of an attempt at the same row to compare each with. Default: `flagged`.
   */
  readonly transcripts?: 'flagged' | 'all' | 'none'
  /** Ends the work; nothing is written then. */
  readonly signal?: AbortSignal
}

/** What was written. */
export interface WrittenReport {
  /** Absolute. */
  readonly file: string
  readonly bytes: number
  /** Transcripts in it. */
  readonly transcripts: number
  /** Rollouts that it shows. */
  readonly rollouts: number
}

/**
 * Writes a run as one HTML file that needs no server: the page of the viewer with its data inside.
 *
 * @throws OsmosisError with code `damaged_run`, or `storage_error` when it cannot be written
 */
export async function exportReport(options: ReportOptions): Promise<WrittenReport> {
  const { transcripts = 'flagged', signal } = options
  const run = await OpenRun.open(options.run)
  const view = await run.view('')
  if (view === undefined) throw new TypeError('A run has a view of itself.')
  const items = chosenItems(view.document, transcripts)
  const embedded = await pack(run, view, items, signal)
  const { name } = view
  const report: EmbeddedReport = {
    summaries: [{ ...(await summarize(run, name)), variants: [] }],
    runs: { [name]: { ...(await run.answer(view)), variants: [] } },
    transcripts: { [name]: embedded },
  }
  const html = (await readPage())
    .replace("connect-src 'self'", "connect-src 'none'")
    .replace('<!--data-->', () => dataElement(report))
  signal?.throwIfAborted()
  const file = path.resolve(options.file)
  try {
    await writeFile(file, html, { mode: 0o600 })
  } catch (cause) {
    throw new OsmosisError('storage_error', `Cannot write the report ${file}.`, { cause })
  }
  return {
    file,
    bytes: Buffer.byteLength(html),
    transcripts: items.length,
    rollouts: view.ended,
  }
}

/** Text that ends no script element and no line of JavaScript, whatever a model said. */
function dataElement(report: EmbeddedReport): string {
  const json = JSON.stringify(report)
    .replaceAll('<', String.raw`\u003c`)
    .replaceAll('\u2028', String.raw`\u2028`)
    .replaceAll('\u2029', String.raw`\u2029`)
  return `<script type="application/json" id="embedded">${json}</script>`
}

/** Places of items, in the order of rows, so that attempts at a row lie in one piece. */
function chosenItems(document: RunDocument, which: 'flagged' | 'all' | 'none'): number[] {
  if (which === 'none') return []
  const table = new RunTable(document)
  return table.groups.flatMap(({ items }) => {
    if (which === 'all') return items
    const flagged = items.filter(
      (item) =>
        !table.passed(item) || table.signs(item).length > 0 || table.note(item) !== undefined,
    )
    // What a failure is put beside: the first attempt that passed.
    const passed = items.find((item) => table.passed(item))
    const wanted = new Set(passed === undefined ? flagged : [...flagged, passed])
    return flagged.length === 0 ? [] : items.filter((item) => wanted.has(item))
  })
}

async function pack(
  run: OpenRun,
  view: RunView,
  items: readonly number[],
  signal: AbortSignal | undefined,
): Promise<EmbeddedTranscripts> {
  const { row, attempt } = view.document.columns
  const names = items.map((item) => [row[item] ?? 0, attempt[item] ?? 0] as const)
  const pieces: string[] = []
  for (let first = 0; first < names.length; first += pieceSize) {
    signal?.throwIfAborted()
    const piece: TranscriptAnswer[] = []
    for (const name of names.slice(first, first + pieceSize)) {
      piece.push((await run.transcript(view, name)) ?? lost)
    }
    pieces.push((await compress(JSON.stringify(piece))).toString('base64'))
  }
  return { pieceSize, items: names.map(([r, a]) => `${r}.${a}`), pieces }
}
