import { open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'

import { AppendedFile, syncFolder } from '@osmosis/protocol/files'

import { closeBrace, closeBracket, endOfText, openBrace, openBracket, quote } from './json-bytes.ts'

/** The first fields of a line. */
interface LineHead {
  /** Of its record. */
  readonly id: string
  /** The number of earlier steps of its record, which orders steps and notes. */
  readonly number: number
  readonly kind: string
}

/** A line of a segment. */
export interface SegmentLine {
  /** Undefined when it cannot be read. */
  readonly head: LineHead | undefined
  /** Without its newline. */
  readonly text: string
  /** Position in the file. Bytes. */
  readonly offset: number
}

/** Unreadable segments get the second name, and are left for an operator. */
const segmentName = /^journal-(\d{8,})\.(jsonl|unreadable)$/
const headOfLine = /([{-])"id":"([0-9a-f-]{36})","n":(\d+),"line":"(\w+)"/g
/** Replaces the first byte of an acceptance. */
const struckOut = '-'

/** One file of a journal. */
export class Segment extends AppendedFile {
  readonly number: number
  /** Number of live records with lines in it. */
  live = 0
  /** Whether it contains lines of ended records, or nothing at all. */
  isStale = false
  /** Whether a part cannot be read: then it is not deleted. */
  isUnreadable = false

  /** @param size - of an existing file. Bytes */
  constructor(folder: string, number: number, size = 0) {
    super(path.join(folder, `journal-${String(number).padStart(8, '0')}.jsonl`), size)
    this.number = number
  }

  /**
   * All lines in order. An incomplete last line is omitted: the process was killed, or the disk full, before
   * that step was visible.
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
    if (rest.length > 0 && shapeOf(rest) === 'damaged') lines.push(...toLines(rest, offset))
    return lines
  }

  /**
   * Marks the records of these acceptances as ended. Overwriting one byte of each needs no space, so it works
   * on a full disk.
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

  /** What an unreadable file is called when nothing in it is needed any more. */
  get unreadablePath(): string {
    return this.path.replace(/jsonl$/, 'unreadable')
  }

  /** Deletes the file; an unreadable one is renamed. When this resolves, that survives the machine. */
  async remove(): Promise<void> {
    await this.close()
    if (this.isUnreadable) {
      await rename(this.path, this.unreadablePath).catch(unlessMissing)
    } else await rm(this.path, { force: true })
    // Later segments contain the ends of records in this one, and may be removed only after it.
    await syncFolder(path.dirname(this.path))
  }
}

/** Whether bytes are a line, the beginning of one, or were not written by a journal. */
function shapeOf(bytes: Uint8Array): 'complete' | 'incomplete' | 'damaged' {
  const [first] = bytes
  if (first !== openBrace && first !== struckOut.charCodeAt(0)) return 'damaged'
  let depth = 1
  for (let at = 1; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === quote) at = endOfText(bytes, at)
    else if (byte === openBrace || byte === openBracket) depth += 1
    else if (byte === closeBrace || byte === closeBracket) depth -= 1
    // Something else follows where the line break was.
    if (depth === 0) return at === bytes.length - 1 ? 'complete' : 'damaged'
  }
  return 'incomplete'
}

/**
 * One line. A damaged line may have lost line breaks: it gives an entry for each line that starts in it, because
 * the heads still name the records.
 */
function toLines(bytes: Buffer, offset: number): SegmentLine[] {
  const text = bytes.toString()
  const heads = [...text.matchAll(headOfLine)]
  if (heads[0]?.index === 0 && shapeOf(bytes) === 'complete') {
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

/** The segments of earlier processes, the oldest first, and the highest number so far. */
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
