import type { OutboxFolder } from './outbox-folder.ts'
import { WriteGroups } from './outbox-groups.ts'
import { KeptRecords, type KeptRecord } from './outbox-kept.ts'
import { toLastLine } from './outbox-lines.ts'
import { findRecords, type FoundRecord } from './outbox-reading.ts'
import { findSegments, Segment } from './outbox-segment.ts'
import { JournalTidying } from './outbox-tidying.ts'

/** A segment takes no further group when it has this size. Bytes. */
const segmentBytes = 1024 * 1024
/** A group takes no further line when it has this size: a few thousand acceptances wait for one sync. Characters. */
const groupLength = 4 * 1024 * 1024

/** A line on its way to the disk. */
interface JournalLine {
  readonly record: KeptRecord
  /** A note does no harm when it is lost. What is copied is still where it was. */
  readonly kind: 'acceptance' | 'step' | 'note' | 'copy'
  readonly isAcceptance: boolean
  readonly text: string
}

/**
 * The lines of all rollouts of an outbox, behind one another in files that are called segments. All
 * that come while the disk is busy are written and synced together. What an earlier process, or a write
 * that failed, has left is never appended to.
 */
export class OutboxJournal {
  readonly #folder: Pick<OutboxFolder, 'path' | 'isLost' | 'assertHeld'>
  readonly #groups = new WriteGroups<JournalLine | undefined>(
    async (group) => this.#write(group.filter((line) => line !== undefined)),
    (line) => line?.text.length ?? 0,
    groupLength,
  )
  readonly #records = new KeptRecords()
  readonly #tidying: JournalTidying
  readonly #onTrouble: (what: string, error: unknown) => void
  #segments: Segment[] = []
  #current: Segment | undefined
  #lastNumber = 0
  #isSealing = false
  #isOpen = false

  /** @param onTrouble - called with what fails while nobody waits for it */
  constructor(folder: OutboxFolder, onTrouble: (what: string, error: unknown) => void) {
    this.#folder = folder
    this.#onTrouble = onTrouble
    this.#tidying = new JournalTidying(
      {
        segments: () => this.#segments,
        liveBytes: () => this.#records.bytes,
        seal: async () => this.#seal(),
        retire: async (segment) => this.#retire(segment),
      },
      (error) => onTrouble('the outbox cannot be tidied', error),
    )
  }

  /** Whether another process continues with what is kept. */
  get isLost(): boolean {
    return this.#folder.isLost
  }

  /** How many records are kept. */
  get count(): number {
    return this.#records.count
  }

  /**
   * Reads what earlier processes left.
   *
   * @param read - makes something of a record; throws when that cannot be done
   * @param onUnreadable - called with each file that is not understood as a whole
   */
  async open<T>(
    read: (record: FoundRecord) => T,
    onUnreadable: (file: string) => void,
  ): Promise<T[]> {
    const { segments, lastNumber } = await findSegments(this.#folder.path)
    this.#segments = segments
    this.#lastNumber = lastNumber
    const { records, struckOut } = await findRecords(this.#segments)
    const results: T[] = []
    for (const found of records) {
      try {
        results.push(read(found))
        this.#records.take(found.record)
      } catch {
        // What the parser says quotes the line, keys included.
        for (const segment of found.record.segments) segment.isUnreadable = true
      }
    }
    for (const segment of this.#segments) {
      segment.isStale = true
      if (segment.isUnreadable) onUnreadable(segment.path)
    }
    // Their other lines may be in segments that outlive the one in which they were struck out.
    for (const id of struckOut) this.#records.forget(this.#records.begin(id))
    this.#isOpen = true
    this.#tidying.consider(this.count)
    return results
  }

  /**
   * Keeps the first line of a record; when this resolves it survives the machine.
   *
   * @throws the error of the file system; the record is over then, for the next process as well
   */
  async accept(id: string, text: string): Promise<void> {
    this.#assertOpen()
    const record = this.#records.begin(id)
    await this.#groups.add({ record, kind: 'acceptance', isAcceptance: true, text })
  }

  /** Keeps a line of a record, as `accept` does. */
  async step(id: string, text: string): Promise<void> {
    await this.#add(id, 'step', text)
  }

  /**
   * Keeps a line that does no harm when it is lost; when this resolves it survives the process.
   *
   * @throws the error of the file system
   */
  async note(id: string, text: string): Promise<void> {
    await this.#add(id, 'note', text)
  }

  /**
   * Ends a record. When this resolves, no later process of this machine finds it.
   *
   * @throws the error of the file system; it is said when something can be written again
   */
  async end(id: string): Promise<void> {
    this.#assertOpen()
    const record = this.#records.get(id)
    if (record === undefined) return
    this.#records.forget(record)
    await this.#groups.add(undefined)
  }

  /** Finishes what was started. */
  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.#groups.idle()
    await this.#tidying.close()
    await this.#current?.close()
  }

  async #add(id: string, kind: JournalLine['kind'], text: string): Promise<void> {
    this.#assertOpen()
    const record = this.#records.get(id)
    if (record === undefined) throw new Error('the record of the rollout is gone')
    await this.#groups.add({ record, kind, isAcceptance: false, text })
  }

  async #write(group: readonly JournalLine[]): Promise<void> {
    if (this.#isSealing || (this.#current?.size ?? 0) >= segmentBytes) await this.#closeCurrent()
    // No line comes after the one that says that its record is over.
    const lines = group.filter(({ record }) => !record.isOver)
    const over = this.#records.unsaid
    const lastLines = over.map(({ id }) => toLastLine(id)).join('')
    const text = lastLines + lines.map((line) => line.text).join('')
    if (text === '') return
    const segment = (this.#current ??= this.#begin())
    let offset = segment.size + Buffer.byteLength(lastLines)
    try {
      this.#folder.assertHeld()
      await segment.append(text, { sync: lines.some(({ kind }) => kind !== 'note') })
      // While the disk was waited for, another process may have started to tell what it found there.
      this.#folder.assertHeld()
    } catch (error) {
      if (!this.#folder.isLost) await this.#takeBack(segment, lines)
      throw error
    }
    if (over.length > 0) segment.isStale = true
    for (const record of over) this.#records.letGo(record)
    for (const line of lines) offset = this.#place(line, segment, offset)
    this.#tidying.consider(this.count)
  }

  /** Notes where a line is that was written, and says where the next one is. */
  #place(
    { record, text, kind, isAcceptance }: JournalLine,
    segment: Segment,
    offset: number,
  ): number {
    const bytes = Buffer.byteLength(text)
    this.#records.place(record, segment)
    if (isAcceptance) record.accepted = { segment, offset }
    // What is copied was counted where it was.
    if (kind !== 'copy') this.#records.grow(record, bytes)
    return offset + bytes
  }

  /**
   * A group failed: nobody knows what of it is on the disk. All of it is taken from there, and the
   * records of its steps are ended: what the next process would make of them without that step could
   * contradict what is told now.
   */
  async #takeBack(segment: Segment, lines: readonly JournalLine[]): Promise<void> {
    this.#current = undefined
    for (const { record, kind } of lines) {
      if (kind === 'acceptance' || kind === 'step') this.#records.forget(record)
    }
    try {
      await segment.cut()
      // Nothing is left of what was to be accepted.
      for (const record of this.#records.unsaid) {
        if (record.segments.length === 0) this.#records.letGo(record)
      }
      if (segment.size === 0) {
        // Not later: as long as nothing can be written, there is one for each attempt.
        this.#segments = this.#segments.filter((other) => other !== segment)
        await segment.retire()
      }
      await segment.close()
    } catch (error) {
      segment.isStale = true
      this.#onTrouble('what could not be written cannot be taken back', error)
    }
    await this.#strikeOut()
    this.#tidying.consider(this.count)
  }

  /** Ends records where nothing can be appended. The next group that is written says so as well. */
  async #strikeOut(): Promise<void> {
    const offsets = new Map<Segment, number[]>()
    for (const record of this.#records.unsaid) {
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
        this.#onTrouble('the next process may find rollouts that are over', error)
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
    // What others wait for is on the disk, and is no less so when this fails.
    await current?.close().catch((error: unknown) => this.#onTrouble('a file stays open', error))
  }

  /** From now on the segments that there are have all that they will ever have. */
  async #seal(): Promise<void> {
    this.#isSealing = true
    await this.#groups.add(undefined)
  }

  /** Removes the oldest segment, with its live lines copied to the current one. */
  async #retire(segment: Segment): Promise<void> {
    if (segment === this.#current) await this.#seal()
    if (segment.live > 0) {
      const records = await this.#copyLive(segment)
      for (const record of records) {
        record.segments = record.segments.filter((other) => other !== segment)
      }
    }
    this.#folder.assertHeld()
    await segment.retire()
    this.#segments = this.#segments.filter((other) => other !== segment)
  }

  async #copyLive(segment: Segment): Promise<ReadonlySet<KeptRecord>> {
    const copied = new Set<KeptRecord>()
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
