import { writeFile } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'

import { readPage } from '../page-file.ts'
import { OpenRun } from '../runs/open-run.ts'
import type { EmbeddedReport } from '../wire.ts'
import { packReport } from './pack-report.ts'

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
  const packed = await packReport(run, { variant, transcripts, signal })
  const html = (await readPage())
    .replace("connect-src 'self'", "connect-src 'none'")
    .replace('<!--data-->', () => dataElement(packed.report))
  signal?.throwIfAborted()
  const file = path.resolve(options.file)
  try {
    await writeFile(file, html, { mode: 0o600 })
  } catch (cause) {
    throw new OsmosisError('storage_error', `Cannot write the report ${file}.`, { cause })
  }
  const { transcripts: held, rollouts, variants } = packed
  return { file, bytes: Buffer.byteLength(html), transcripts: held, rollouts, variants }
}

/** Escapes text of models so that it cannot end the script element or a line of JavaScript. */
function dataElement(report: EmbeddedReport): string {
  const json = JSON.stringify(report)
    .replaceAll('<', String.raw`\u003c`)
    .replaceAll('\u2028', String.raw`\u2028`)
    .replaceAll('\u2029', String.raw`\u2029`)
  return `<script type="application/json" id="embedded">${json}</script>`
}
