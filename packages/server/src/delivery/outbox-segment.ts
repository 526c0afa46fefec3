import { open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'

import { syncFolder } from '@osmosis/runtime/files'

import {
  closeBrace,
  closeBracket,
  endOfText,
  openBrace,
  openBracket,
  quote,
} from '../http/json-bytes.ts'
import { AppendedFile } from './outbox-file.ts'

/** What the beginning of a line says. */
interface LineHead {
  /** Of its record. */
  readonly id: string
  /** How many steps its record had before: steps and what is noted behind them are in order by it. */
  readonly number: number
  readonly kind: string
}

/** A line of a segment. */
export interface SegmentLine {
  /** Undefined: something there makes no sense. */
  readonly head: LineHead | undefined
  /** Without its newline. */
  readonly text: string
  /** Where it begins. Bytes. */
  readonly offset: number
}

/** Those that cannot be read are left to people under the second name. */
const segmentName = /^journal-(\d{8,})\.(jsonl|unreadable)$/
const headOfLine = /([{-])"id":"([0-9a-f-]{36})","n":(\d+),"line":"(\w+)"/g
/** In the place of the first byte of an acceptance. */
const struckOut = '-'

/** One of the files that the journal of an outbox consists of. */
export class Segment {
  readonly number: number
  readonly #file: AppendedFile
  /** How many records have lines in it and are not over. */
  live = 0
  /** Whether there is something in it about records that are over, or nothing at all. */
  isStale = false
  /** Whether a part of it makes no sense: it is left to people, then. */
  isUnreadable = false

  /** @param size - of the file, where there is one. Bytes */
  constructor(folder: string, number: number, size = 0) {
    this.number = number
    const name = `journal-${String(number).padStart(8, '0')}.jsonl`
    this.#file = new AppendedFile(path.join(folder, name), size)
  }

  get path(): string {
    return this.#file.path
  }

  get size(): number {
    return this.#file.size
  }

  async append(text: string, options: { readonly sync: boolean }): Promise<void> {
    await this.#file.append(text, options)
  }

  async cut(): Promise<void> {
    await this.#file.cut()
  }

  async close(): Promise<void> {
    await this.#file.close()
  }

  /**
   * Its lines in their order. Half a line at its end is left out: the process was killed, or the disk
   * full, before anybody could see that step.
   */
  async lines(): Promise<SegmentLine[]> {
    const bytes = await readFile(this.path).catch(unlessMissing)
    if (bytes === undefined) return []
    const lines: SegmentLine[] = []
    let offset = 0
    for (let end = bytes.indexOf(0x0a); end !== -1; end = bytes.indexOf(0x0a, offset)) {
      lines.push(...toLines(bytes.subarray(offset, end), offset))
      offset = end + 1
    }
    const rest = bytes.subarray(offset)
    if (rest.length > 0 && shapeOf(rest) === 'senseless') lines.push(...toLines(rest, offset))
    return lines
  }

  /**
   * Marks acceptances as those of records that are over. It overwrites one byte of each, so it needs
   * no room: it can be done on a full disk.
   */
  async strikeOut(offsets: readonly number[]): Promise<void> {
    const handle = await open(this.path, 'r+')
    try {
      for (const offset of offsets) await handle.write(struckOut, offset)
      await handle.datasync()
    } finally {
      await handle.close()
    }
  }

  /** When this resolves, it is gone for good, or has a name for people. */
  async retire(): Promise<void> {
    await this.close()
    if (this.isUnreadable) {
      await rename(this.path, this.path.replace(/jsonl$/, 'unreadable')).catch(unlessMissing)
    } else await rm(this.path, { force: true })
    // What is said in later segments about records in this one may go only when this one has gone.
    await syncFolder(path.dirname(this.path))
  }
}

/** Whether bytes are a line, the beginning of one, or nothing that was ever written here. */
function shapeOf(bytes: Uint8Array): 'whole' | 'started' | 'senseless' {
  const [first] = bytes
  if (first !== openBrace && first !== struckOut.charCodeAt(0)) return 'senseless'
  let depth = 1
  for (let at = 1; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === quote) at = endOfText(bytes, at)
    else if (byte === openBrace || byte === openBracket) depth += 1
    else if (byte === closeBrace || byte === closeBracket) depth -= 1
    // Something follows: where a line break was, there is something else now.
    if (depth === 0) return at === bytes.length - 1 ? 'whole' : 'senseless'
  }
  return 'started'
}

/**
 * One line, or where line breaks are lost one for each that begins in it: what it says cannot be read, but
 * whose it was.
 */
function toLines(bytes: Buffer, offset: number): SegmentLine[] {
  const text = bytes.toString()
  const heads = [...text.matchAll(headOfLine)]
  if (heads[0]?.index === 0 && shapeOf(bytes) === 'whole') {
    return [{ head: toHead(heads[0]), text, offset }]
  }
  return [undefined, ...heads.map(toHead)].map((head) => ({ head, text, offset }))
}

function toHead([, first, id = '', number, kind = '']: RegExpMatchArray): LineHead {
  return { id, number: Number(number), kind: first === struckOut ? 'over' : kind }
}

function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/** The segments that earlier processes left, the oldest first, and the number that was given last. */
export async function findSegments(
  folder: string,
): Promise<{ segments: Segment[]; lastNumber: number }> {
  const segments: Segment[] = []
  let lastNumber = 0
  for (const name of await readdir(folder)) {
    const [, digits, kind] = segmentName.exec(name) ?? []
    if (digits === undefined) continue
    const number = Number(digits)
    lastNumber = Math.max(lastNumber, number)
    if (kind !== 'jsonl') continue
    segments.push(new Segment(folder, number, (await stat(path.join(folder, name))).size))
  }
  return { segments: segments.toSorted((a, b) => a.number - b.number), lastNumber }
}
