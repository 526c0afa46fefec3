import { createReadStream } from 'node:fs'
import { access, open } from 'node:fs/promises'
import { extname } from 'node:path'
import { pipeline } from 'node:stream/promises'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import {
  readTextLines,
  utf8Text,
  withoutByteOrderMark,
  type TextLine,
} from '@osmosis/protocol/files'
import { WrittenNumber, toExactText } from '@osmosis/protocol/wire'
import { CsvError, parse } from 'csv-parse'

import { invalidDataset } from './dataset-problems.ts'
import { withPlace, type DatasetRow } from './dataset-row.ts'
import { readParquetRows } from './parquet-rows.ts'
import { parseRow } from './parse-row.ts'
import {
  findColumns,
  nameProblems,
  type ColumnNames,
  type RawRow,
  assertCellSize,
  DataProblem,
  noting,
  parseCellJson,
  type RowReader,
} from './raw-row.ts'

const lineFeed = 0x0a

const largestCsvRecord = 128 * 2 ** 20

const brokenQuotes: Readonly<Record<string, string>> = {
  CSV_MAX_RECORD_SIZE: `a row of more than ${largestCsvRecord / 2 ** 20} MiB; is a quote opened and never closed?`,
  CSV_QUOTE_NOT_CLOSED: 'a quote is opened and never closed',
  CSV_INVALID_CLOSING_QUOTE:
    'text follows a closing quote; write a quote inside of a quoted cell twice',
  INVALID_OPENING_QUOTE:
    'a quote inside of a cell without quotes around it; remove what precedes the quote (such as a space after the comma), or put the whole cell in quotes and write inner quotes twice',
}

/** Advice when the only column of a file has a name that looks like several columns; '' otherwise. */
function separatorAdvice(names: readonly string[]): string {
  const [name = '', ...others] = names
  if (others.length > 0) return ''
  const separator = name.includes(';') ? 'by ";"' : name.includes('\t') ? 'by tabs' : undefined
  if (separator === undefined) return ''
  return `Cells must be separated by commas, not ${separator}: save the file with commas.`
}

/** Reads comma-separated values below a header row. Cells are text; blank lines are skipped. */
async function readCsvRows(file: string, problems: string[]): Promise<RawRow[]> {
  const table = new CsvTable(problems)
  const parser = parse({
    // Cells as bytes: the parser would silently replace invalid UTF-8.
    encoding: null,
    record_delimiter: ['\r\n', '\n', '\r'],
    // Bytes. Without a limit a quote that is never closed reads the rest of the file as one cell.
    max_record_size: largestCsvRecord,
    relax_column_count: true,
    on_record: (record) => {
      table.takeRecord(record as unknown as readonly Uint8Array[])
      return null
    },
  })
  try {
    await pipeline(readWithoutByteOrderMark(file), parser.resume())
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    problems.push(`line ${table.nextLine}: ${brokenQuotes[error.code] ?? error.message}`)
  }
  return table.rows
}

async function* readWithoutByteOrderMark(file: string): AsyncGenerator<Buffer, void> {
  let isStart = true
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    yield isStart ? withoutByteOrderMark(chunk) : chunk
    isStart = false
  }
}

class CsvTable {
  readonly rows: RawRow[] = []
  /** The first line of the next record. The parser's own count is wrong after quoted line breaks. */
  nextLine = 1
  readonly #problems: string[]
  #header: readonly string[] | undefined
  #isTooWide = false

  constructor(problems: string[]) {
    this.#problems = problems
  }

  /** Called for each record in order; the first is the header. */
  takeRecord(record: readonly Uint8Array[]): void {
    const place = `line ${this.nextLine}`
    for (const cell of record) for (const byte of cell) if (byte === lineFeed) this.nextLine += 1
    this.nextLine += 1
    if (record.length === 1 && record[0]?.length === 0) return

    // A broken header has been reported; its rows would only repeat that.
    if (this.#isTooWide) return
    const texts = record.map((bytes, index) => this.#toText(bytes, index, place))
    if (this.#header === undefined) {
      this.#header = texts
      const problems = nameProblems(texts)
      this.#isTooWide = problems.length > 0
      this.#problems.push(...problems.map((problem) => `${place}: ${problem}`))
      return
    }
    if (texts.length !== this.#header.length) {
      this.#problems.push(
        `${place}: expected ${this.#header.length} cells, as in the header, got ${texts.length}; put cells with commas or line breaks in quotes`,
      )
    }
    const cells = this.#header.map((name, index) => [name, texts[index] || null] as const)
    this.rows.push({ place, cells: Object.fromEntries(cells) })
  }

  #toText(bytes: Uint8Array, index: number, place: string): string {
    noting(this.#problems, place, () => assertCellSize(bytes.length))
    const text = utf8Text(bytes)
    if (text !== undefined) return text
    const column = JSON.stringify(this.#header?.[index] ?? index + 1)
    this.#problems.push(`${place}: column ${column}: invalid UTF-8; save the file as UTF-8`)
    return Buffer.from(bytes).toString()
  }
}

const readers: Readonly<Record<string, RowReader>> = {
  '.jsonl': readJsonlRows,
  '.ndjson': readJsonlRows,
  '.csv': readCsvRows,
  '.parquet': readParquetRows,
}

/**
 * Reads a dataset in JSON Lines (`.jsonl`, `.ndjson`: one object per line), CSV (`.csv`: commas, a
 * header row, UTF-8) or Parquet (`.parquet`: needs `hyparquet` and `hyparquet-compressors`
 * installed). The same data gives the same rows, whatever the format.
 *
 * Columns are `system_prompt`, `user_prompt`, `ground_truth` (or `label`) and `metadata` (an object,
 * or its JSON text), in any case; all others go to `otherColumns`. Without a `metadata` column every
 * row needs a user prompt and a ground truth. Columns with other names are named by `columns`.
 *
 * Numbers in text columns keep their digits exactly. In metadata and other columns they are
 * JavaScript numbers, but integers beyond 2^53 become text. Dates become ISO text.
 *
 * @throws OsmosisError with code `invalid_dataset`, naming up to five bad lines or rows
 */
export async function readDataset(
  file: string,
  options: {
    /** The type of such integers. Default: `text`. */
    readonly largeIntegers?: 'text' | 'bigint'
    /** Columns with other names. They have no other meaning then. Default: none. */
    readonly columns?: ColumnNames | undefined
  } = {},
): Promise<DatasetRow[]> {
  const { largeIntegers = 'text', columns: named } = options
  const problems: string[] = []
  const rawRows = await readRawRows(file, problems)
  if (rawRows.length === 0 && problems.length === 0) problems.push('contains no rows')
  const isCsv = readerOf(file) === readCsvRows
  const columns = findColumns(rawRows, problems, isCsv ? separatorAdvice : () => '', named)
  if (problems.length > 0) throw invalidDataset(file, problems)

  const rows: DatasetRow[] = []
  for (const [index, rawRow] of rawRows.entries()) {
    const row = noting(problems, rawRow.place, () =>
      parseRow(rawRow, index, { columns, largeIntegers }),
    )
    if (row) rows.push(withPlace(row, rawRow.place))
  }
  if (problems.length > 0) throw invalidDataset(file, problems)
  return rows
}

/**
 * Reads the rows of a dataset with their columns as they are written, each as the text of a JSON object. Empty cells of
 * CSV are null.
 *
 * @throws OsmosisError with code `invalid_dataset`
 */
export async function readRowTexts(file: string): Promise<string[]> {
  const problems: string[] = []
  const rows = await readRawRows(file, problems)
  if (problems.length > 0) throw invalidDataset(file, problems)
  return rows.map(({ cells }) => toExactText(cells))
}

async function readRawRows(file: string, problems: string[]): Promise<RawRow[]> {
  const read = readerOf(file)
  try {
    await access(file)
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT'
    throw cannotRead(file, isMissing ? 'there is no such file' : errorMessage(cause), cause)
  }
  try {
    await assertReadable(file)
    return await read(file, problems)
  } catch (cause) {
    throw cannotRead(file, errorMessage(cause), cause)
  }
}

function readerOf(file: string): RowReader {
  const extension = extname(file).toLowerCase()
  const reader = readers[extension]
  if (reader) return reader
  const advice =
    extension === '.json'
      ? 'Write it as JSON Lines, one object per line.'
      : compressed.some(({ extensions }) => extensions.includes(extension))
        ? 'It is compressed: decompress it.'
        : 'Convert it to one of these formats.'
  const got = extension === '' ? 'no extension' : `"${extension}"`
  throw new OsmosisError(
    'invalid_dataset',
    `Cannot read ${file}: datasets are .jsonl (or .ndjson), .csv or .parquet files, got ${got}. ${advice}`,
  )
}

/** Formats that a dataset is often wrapped in, by how their files begin. */
const compressed = [
  { what: 'compressed with gzip', begins: '1f8b', extensions: ['.gz', '.tgz'] },
  { what: 'compressed with zstd', begins: '28b52ffd', extensions: ['.zst', '.zstd'] },
  { what: 'a zip archive', begins: '504b0304', extensions: ['.zip'] },
  { what: 'compressed with bzip2', begins: '425a68', extensions: ['.bz2'] },
  { what: 'compressed with xz', begins: 'fd377a585a00', extensions: ['.xz'] },
]
const lfsPointer = 'version https://git-lfs.github.com/spec/'

/** @throws Error for a file that holds something else than its name says */
async function assertReadable(file: string): Promise<void> {
  const handle = await open(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(64), 0, 64, 0)
    const beginning = buffer.subarray(0, bytesRead)
    const hex = beginning.toString('hex')
    const wrapped = compressed.find(({ begins }) => hex.startsWith(begins))
    if (wrapped !== undefined) throw new Error(`it is ${wrapped.what}; decompress it`)
    if (!beginning.toString('latin1').startsWith(lfsPointer)) return
    throw new Error('it is a pointer of Git LFS, without the data; run git lfs pull')
  } finally {
    await handle.close()
  }
}

function cannotRead(file: string, reason: string, cause: unknown): OsmosisError {
  return new OsmosisError('invalid_dataset', `Cannot read the dataset ${file}: ${reason}`, {
    cause,
  })
}

/** Reads JSON Lines: one object per line. Blank lines are skipped. */
async function readJsonlRows(file: string, problems: string[]): Promise<RawRow[]> {
  const rows: RawRow[] = []
  for await (const line of readTextLines(file)) {
    const place = `line ${line.number}`
    const cells = noting(problems, place, () => parseLine(line))
    if (cells) rows.push({ place, cells })
  }
  return rows
}

/** Undefined for a blank line. */
function parseLine({ bytes }: TextLine): RawRow['cells'] | undefined {
  const text = utf8Text(bytes)
  if (text === undefined) throw new DataProblem('invalid UTF-8')
  if (text.trim() === '') return undefined
  const value = parseJson(text)
  if (isRecord(value)) return value
  throw new DataProblem('invalid JSONL row - top-level value must be an object')
}

function parseJson(text: string): unknown {
  try {
    return parseCellJson(text)
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause
    throw new DataProblem(`invalid JSON - ${cause.message}`, { cause })
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return isJsonObject(value) && !(value instanceof WrittenNumber)
}
