import type { Segment, SegmentLine } from './journal-segment.ts'
import { lineKinds, noteKinds } from './outbox-lines.ts'

/** A record of the journal, and where its lines are. */
export interface JournalRecord {
  readonly id: string
  /** Those that contain lines of it. */
  segments: Segment[]
  /** Of its lines. Bytes. */
  bytes: number
  /** The position of its acceptance, for striking it out. */
  accepted: { readonly segment: Segment; readonly offset: number } | undefined
  hasEnded: boolean
}

/** The live records of a journal, and ended ones whose end is not written yet. */
export class JournalRecords {
  readonly #live = new Map<string, JournalRecord>()
  readonly #unwrittenEnds = new Set<JournalRecord>()
  #bytes = 0

  /** Number of live records. */
  get count(): number {
    return this.#live.size
  }

  /** Bytes of the lines of all live records. */
  get bytes(): number {
    return this.#bytes
  }

  /** Ended records without an end in a segment. */
  get unwrittenEnds(): readonly JournalRecord[] {
    return [...this.#unwrittenEnds]
  }

  /** Undefined when it has ended. */
  get(id: string): JournalRecord | undefined {
    return this.#live.get(id)
  }

  /** Adds a record without lines. */
  begin(id: string): JournalRecord {
    const record = { id, segments: [], bytes: 0, accepted: undefined, hasEnded: false }
    this.#live.set(id, record)
    return record
  }

  /** Adds a record of an earlier process. */
  restore(record: JournalRecord): void {
    this.#live.set(record.id, record)
    this.#bytes += record.bytes
    for (const segment of record.segments) segment.live += 1
  }

  /** Notes that a segment contains a line of the record. */
  place(record: JournalRecord, segment: Segment): void {
    if (record.segments.includes(segment)) return
    record.segments.push(segment)
    segment.live += 1
  }

  /** Notes the size of a new line. */
  grow(record: JournalRecord, bytes: number): void {
    record.bytes += bytes
    if (!record.hasEnded) this.#bytes += bytes
  }

  end(record: JournalRecord): void {
    if (record.hasEnded) return
    record.hasEnded = true
    this.#live.delete(record.id)
    this.#bytes -= record.bytes
    for (const segment of record.segments) segment.isStale = true
    this.#unwrittenEnds.add(record)
  }

  /** Notes that the end of a record is written: its segments no longer need to exist for it. */
  endWritten(record: JournalRecord): void {
    this.#unwrittenEnds.delete(record)
    for (const segment of record.segments) segment.live -= 1
  }
}

/** A record of an earlier process. */
export interface FoundRecord {
  readonly record: JournalRecord
  /** In the order of their writing. */
  readonly lines: readonly string[]
}

interface PlacedLine extends SegmentLine {
  readonly head: NonNullable<SegmentLine['head']>
  readonly segment: Segment
}

/**
 * Reads all segments, the oldest first. Compaction copies lines, so a line may exist twice, and be later than
 * the lines that follow it. The end of a record is valid wherever it is.
 *
 * @returns the live records, and the ids of those that were struck out
 */
export async function findRecords(
  segments: readonly Segment[],
): Promise<{ records: readonly FoundRecord[]; struckOut: ReadonlySet<string> }> {
  const found = new Map<string, PlacedLine[]>()
  const ended = new Set<string>()
  const struckOut = new Set<string>()
  for (const segment of segments) {
    for (const line of await segment.lines()) {
      const { head } = line
      if (head === undefined) segment.isUnreadable = true
      else if (head.kind === 'over') {
        ended.add(head.id)
        found.delete(head.id)
        if (line.text.startsWith('-')) struckOut.add(head.id)
      } else if (!ended.has(head.id)) {
        const lines = found.get(head.id)
        const placed = { ...line, head, segment }
        if (lines === undefined) found.set(head.id, [placed])
        else lines.push(placed)
      }
    }
  }
  return { records: [...found].flatMap(([id, lines]) => toRecord(id, lines)), struckOut }
}

function toRecord(id: string, lines: readonly PlacedLine[]): FoundRecord[] {
  const segments = [...new Set(lines.map(({ segment }) => segment))]
  // A newer version may have written them; only that version knows what they mean.
  const isForeign = lines.some(({ head }) => !lineKinds.has(head.kind))
  const accepted = lines.findLast(({ head }) => head.kind === 'accepted')
  // Its acceptance was removed with a segment, so it has ended.
  if (accepted === undefined && !isForeign) return []
  const ordered = isForeign ? undefined : inOrder(lines)
  if (accepted === undefined || ordered === undefined) {
    for (const segment of segments) segment.isUnreadable = true
    return []
  }
  const bytes = lines.reduce((sum, { text }) => sum + Buffer.byteLength(text) + 1, 0)
  const { segment, offset } = accepted
  const record = { id, segments, bytes, accepted: { segment, offset }, hasEnded: false }
  return [{ record, lines: ordered }]
}

/** Each step once, followed by its notes; undefined when a step is missing. */
function inOrder(lines: readonly PlacedLine[]): string[] | undefined {
  const steps = new Map<number, string>()
  const notes = new Map<number, string[]>()
  let last = 0
  for (const { head, text } of lines) {
    last = Math.max(last, head.number)
    if (!noteKinds.has(head.kind)) steps.set(head.number, text)
    else notes.set(head.number, [...(notes.get(head.number) ?? []), text])
  }
  const ordered: string[] = []
  for (let number = 0; number <= last; number += 1) {
    const step = steps.get(number)
    if (step === undefined) return undefined
    ordered.push(step, ...(notes.get(number) ?? []))
  }
  return ordered
}
