import { WriteGroups } from '@osmosis/protocol/files'

import { JournalCompaction } from './journal-compaction.ts'
import {
  findRecords,
  JournalRecords,
  type FoundRecord,
  type JournalRecord,
} from './journal-records.ts'
import { findSegments, Segment } from './journal-segment.ts'
import { toLastLine } from './outbox-lines.ts'

/** A segment of this size gets no further group. Bytes. */
const segmentBytes = 1024 * 1024
/** A group of this size gets no further line: a few thousand acceptances share one sync. Characters. */
const groupLength = 4 * 1024 * 1024

/** The folder of a journal. */
export interface JournalFolder {
  readonly path: string
  /** Whether another process has taken it over, to which its content then belongs. */
  readonly isLost: boolean
  /**
   * Call it before the folder is changed, and before its content is shown.
   *
   * @throws OsmosisError with code `storage_error` when another process has taken over the folder
   */
  assertHeld(): void
}

/** A line that is to be written. */
interface JournalLine {
  readonly record: JournalRecord
  /** The loss of a note does no harm. A copied line still exists in its old segment. */
  readonly kind: 'acceptance' | 'step' | 'note' | 'copy'
  readonly isAcceptance: boolean
  readonly text: string
}

/**
 * The lines of all rollouts of an outbox, appended to files that are called segments. Lines that arrive while
 * the disk is busy are written and synced together. Segments of an earlier process, or with a failed write, are
 * never appended to.
 */
export class OutboxJournal {
  readonly #folder: JournalFolder
  readonly #groups = new WriteGroups<JournalLine | undefined>(
    async (group) => this.#write(group.filter((line) => line !== undefined)),
    (line) => line?.text.length ?? 0,
    groupLength,
  )
  readonly #records = new JournalRecords()
  readonly #compaction: JournalCompaction
  readonly #onError: (what: string, error: unknown) => void
  #segments: Segment[] = []
  #current: Segment | undefined
  #lastNumber = 0
  #isSealing = false
  #isOpen = false

  /** @param onError - called with errors of background work */
  constructor(folder: JournalFolder, onError: (what: string, error: unknown) => void) {
    this.#folder = folder
    this.#onError = onError
    this.#compaction = new JournalCompaction(
      {
        segments: () => this.#segments,
        liveBytes: () => this.#records.bytes,
        seal: async () => this.#seal(),
        remove: async (segment) => this.#remove(segment),
      },
      (error) => onError('the outbox cannot be compacted', error),
    )
  }

  /** Whether another process has taken over the folder. */
  get isLost(): boolean {
    return this.#folder.isLost
  }

  /** Number of live records. */
  get count(): number {
    return this.#records.count
  }

  /**
   * Reads the records of earlier processes.
   *
   * @param read - converts a record; throws when that is not possible
   * @param onUnreadable - called with each file that cannot be read completely, and what it is called afterwards
   */
  async open<T>(
    read: (record: FoundRecord) => T,
    onUnreadable: (file: string, keptAs: string) => void,
  ): Promise<T[]> {
    const { segments, lastNumber } = await findSegments(this.#folder.path)
    this.#segments = segments
    this.#lastNumber = lastNumber
    const { records, struckOut } = await findRecords(this.#segments)
    const results: T[] = []
    for (const found of records) {
      try {
        results.push(read(found))
        this.#records.restore(found.record)
      } catch {
        // The parser's message is ignored: it quotes the line, keys included.
        for (const segment of found.record.segments) segment.isUnreadable = true
      }
    }
    for (const segment of this.#segments) {
      segment.isStale = true
      if (segment.isUnreadable) onUnreadable(segment.path, segment.unreadablePath)
    }
    // Their other lines may be in segments that exist longer than the one with the struck-out line.
    for (const id of struckOut) this.#records.end(this.#records.begin(id))
    this.#isOpen = true
    this.#compaction.schedule(this.count)
    return results
  }

  /**
   * Writes the first line of a record; when this resolves it survives the machine.
   *
   * @throws the error of the file system; the record has then ended, for the next process as well
   */
  async accept(id: string, text: string): Promise<void> {
    this.#assertOpen()
    const record = this.#records.begin(id)
    await this.#groups.add({ record, kind: 'acceptance', isAcceptance: true, text })
  }

  /** Writes a line of a record, as `accept` does. */
  async step(id: string, text: string): Promise<void> {
    await this.#add(id, 'step', text)
  }

  /**
   * Writes a line whose loss does no harm; when this resolves it survives the process.
   *
   * @throws the error of the file system
   */
  async note(id: string, text: string): Promise<void> {
    await this.#add(id, 'note', text)
  }

  /**
   * Ends a record. When this resolves, no later process of this machine finds it.
   *
   * @throws the error of the file system; the end is written with the next group
   */
  async end(id: string): Promise<void> {
    this.#assertOpen()
    const record = this.#records.get(id)
    if (record === undefined) return
    this.#records.end(record)
    await this.#groups.add(undefined)
  }

  /** Finishes all writes. */
  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.#groups.idle()
    await this.#compaction.close()
    await this.#current?.close()
  }

  async #add(id: string, kind: JournalLine['kind'], text: string): Promise<void> {
    this.#assertOpen()
    const record = this.#records.get(id)
    if (record === undefined) throw new Error('the record of the rollout has ended')
    await this.#groups.add({ record, kind, isAcceptance: false, text })
  }

  async #write(group: readonly JournalLine[]): Promise<void> {
    if (this.#isSealing || (this.#current?.size ?? 0) >= segmentBytes) await this.#closeCurrent()
    // No line follows the end of its record.
    const lines = group.filter(({ record }) => !record.hasEnded)
    const ended = this.#records.unwrittenEnds
    const lastLines = ended.map(({ id }) => toLastLine(id)).join('')
    const text = lastLines + lines.map((line) => line.text).join('')
    if (text === '') return
    try {
      this.#folder.assertHeld()
    } catch (error) {
      if (!this.#folder.isLost) {
        this.#endSteps(lines)
        this.#forgetUnwritten()
      }
      throw error
    }
    const segment = (this.#current ??= this.#begin())
    let offset = segment.size + Buffer.byteLength(lastLines)
    try {
      await segment.append(text, { sync: lines.some(({ kind }) => kind !== 'note') })
      // During the write, another process may have taken over the folder and started to deliver.
      this.#folder.assertHeld()
    } catch (error) {
      if (!this.#folder.isLost) await this.#rollBack(segment, lines)
      throw error
    }
    if (ended.length > 0) segment.isStale = true
    for (const record of ended) this.#records.endWritten(record)
    for (const line of lines) offset = this.#place(line, segment, offset)
    this.#compaction.schedule(this.count)
  }

  /** Notes the position of a written line, and returns that of the next one. */
  #place(
    { record, text, kind, isAcceptance }: JournalLine,
    segment: Segment,
    offset: number,
  ): number {
    const bytes = Buffer.byteLength(text)
    this.#records.place(record, segment)
    if (isAcceptance) record.accepted = { segment, offset }
    // A copied line is counted already.
    if (kind !== 'copy') this.#records.grow(record, bytes)
    return offset + bytes
  }

  /**
   * A part of a failed group may be on the disk. All of it is removed, and the records of its steps are ended:
   * without that step, the next process could deliver something that contradicts this one.
   */
  async #rollBack(segment: Segment, lines: readonly JournalLine[]): Promise<void> {
    this.#current = undefined
    this.#endSteps(lines)
    try {
      await segment.cut()
      // No line of the new records is left.
      this.#forgetUnwritten()
      if (segment.size === 0) {
        // At once: while nothing can be written, each attempt creates one.
        this.#segments = this.#segments.filter((other) => other !== segment)
        await segment.remove()
      }
    } catch (error) {
      segment.isStale = true
      this.#onError('a failed write cannot be rolled back', error)
    }
    await this.#close(segment)
    await this.#strikeOut()
    this.#compaction.schedule(this.count)
  }

  #endSteps(lines: readonly JournalLine[]): void {
    for (const { record, kind } of lines) {
      if (kind === 'acceptance' || kind === 'step') this.#records.end(record)
    }
  }

  /** The next group contains the ends of records, but for those of which the disk has nothing. */
  #forgetUnwritten(): void {
    for (const record of this.#records.unwrittenEnds) {
      if (record.segments.length === 0) this.#records.endWritten(record)
    }
  }

  /** Ends records where nothing can be appended. The next group contains their ends as well. */
  async #strikeOut(): Promise<void> {
    const offsets = new Map<Segment, number[]>()
    for (const record of this.#records.unwrittenEnds) {
      if (record.accepted === undefined) continue
      const { segment, offset } = record.accepted
      record.accepted = undefined
      const others = offsets.get(segment)
      if (others === undefined) offsets.set(segment, [offset])
      else others.push(offset)
    }
    for (const [segment, each] of offsets) {
      try {
        await segment.strikeOut(each)
      } catch (error) {
        this.#onError('the next process may find rollouts that have ended', error)
      }
    }
  }

  #begin(): Segment {
    this.#lastNumber += 1
    const segment = new Segment(this.#folder.path, this.#lastNumber)
    this.#segments.push(segment)
    return segment
  }

  async #closeCurrent(): Promise<void> {
    const current = this.#current
    this.#current = undefined
    this.#isSealing = false
    await this.#close(current)
  }

  async #close(segment: Segment | undefined): Promise<void> {
    // The lines are on the disk, even if this fails.
    await segment
      ?.close()
      .catch((error: unknown) => this.#onError('a file cannot be closed', error))
  }

  /** Appends nothing more to the existing segments. */
  async #seal(): Promise<void> {
    this.#isSealing = true
    await this.#groups.add(undefined)
  }

  /** Removes the oldest segment, and copies its live lines to the current one. */
  async #remove(segment: Segment): Promise<void> {
    if (segment === this.#current) await this.#seal()
    if (segment.live > 0) {
      const records = await this.#copyLive(segment)
      for (const record of records) {
        record.segments = record.segments.filter((other) => other !== segment)
      }
    }
    this.#folder.assertHeld()
    await segment.remove()
    this.#segments = this.#segments.filter((other) => other !== segment)
  }

  async #copyLive(segment: Segment): Promise<ReadonlySet<JournalRecord>> {
    const copied = new Set<JournalRecord>()
    const copies: Promise<void>[] = []
    for (const { head, text } of await segment.lines()) {
      const record = head && this.#records.get(head.id)
      if (record === undefined) continue
      copied.add(record)
      const line = { record, kind: 'copy', text: `${text}\n` } as const
      copies.push(this.#groups.add({ ...line, isAcceptance: head?.kind === 'accepted' }))
    }
    await Promise.all(copies)
    return copied
  }

  #assertOpen(): void {
    if (!this.#isOpen) throw new Error('the outbox is closed')
  }
}
