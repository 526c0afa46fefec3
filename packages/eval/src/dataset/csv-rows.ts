import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'

import { CsvError, parse } from 'csv-parse'

import { nameProblems } from './columns.ts'
import type { RawRow } from './raw-row.ts'
import { withoutByteOrderMark } from './read-lines.ts'
import { utf8Text } from './utf8-text.ts'

const lineFeed = 0x0a

const brokenQuotes: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote is opened and never closed',
  CSV_INVALID_CLOSING_QUOTE:
    'text follows a closing quote; write a quote inside of a quoted cell twice',
  INVALID_OPENING_QUOTE:
    'a quote inside of a cell without quotes around it; remove what stands before the quote (a space after the comma, say), or put the whole cell in quotes and write inner quotes twice',
}

/** What to do when the only column of a file has a name that looks like several; '' otherwise. */
export function separatorAdvice(names: readonly string[]): string {
  const [name = '', ...others] = names
  if (others.length > 0) return ''
  const separator = name.includes(';') ? 'by ";"' : name.includes('\t') ? 'by tabs' : undefined
  if (separator === undefined) return ''
  return `Cells must be separated by commas, not ${separator}: save the file with commas.`
}

/** Reads comma-separated values below a header row. Cells are text; blank lines are skipped. */
export async function readCsvRows(file: string, problems: string[]): Promise<RawRow[]> {
  const table = new CsvTable(problems)
  const parser = parse({
    // Cells come as bytes: the parser would replace what is not UTF-8 without a word.
    encoding: null,
    record_delimiter: ['\r\n', '\n', '\r'],
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
  /** Where the next record begins. The parser's own count is wrong after quoted line breaks. */
  nextLine = 1
  readonly #problems: string[]
  #header: readonly string[] | undefined

  constructor(problems: string[]) {
    this.#problems = problems
  }

  /** Takes one record after the other; the first is the header. */
  takeRecord(record: readonly Uint8Array[]): void {
    const place = `line ${this.nextLine}`
    for (const cell of record) for (const byte of cell) if (byte === lineFeed) this.nextLine += 1
    this.nextLine += 1
    if (record.length === 1 && record[0]?.length === 0) return

    const texts = record.map((bytes, index) => this.#toText(bytes, index, place))
    if (this.#header === undefined) {
      this.#header = texts
      this.#problems.push(...nameProblems(texts).map((problem) => `${place}: ${problem}`))
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
    const text = utf8Text(bytes)
    if (text !== undefined) return text
    const column = JSON.stringify(this.#header?.[index] ?? index + 1)
    this.#problems.push(`${place}: column ${column}: invalid UTF-8; save the file as UTF-8`)
    return Buffer.from(bytes).toString()
  }
}
