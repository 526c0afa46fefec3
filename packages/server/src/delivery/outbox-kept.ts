import type { Segment } from './outbox-segment.ts'

/** A record of the journal, and where its lines are. */
export interface KeptRecord {
  readonly id: string
  /** Those that have lines of it. */
  segments: Segment[]
  /** Of its lines. Bytes. */
  bytes: number
  /** Where its acceptance is, to be struck out. */
  accepted: { readonly segment: Segment; readonly offset: number } | undefined
  isOver: boolean
}

/** The records of a journal: those that are kept, and those that are over while no segment says so. */
export class KeptRecords {
  readonly #kept = new Map<string, KeptRecord>()
  readonly #unsaid = new Set<KeptRecord>()
  #bytes = 0

  /** How many are kept. */
  get count(): number {
    return this.#kept.size
  }

  /** Of all lines of those that are kept. */
  get bytes(): number {
    return this.#bytes
  }

  /** Those that are over, and no segment says so. */
  get unsaid(): readonly KeptRecord[] {
    return [...this.#unsaid]
  }

  /** Undefined when it is over. */
  get(id: string): KeptRecord | undefined {
    return this.#kept.get(id)
  }

  /** Begins a record without lines. */
  begin(id: string): KeptRecord {
    const record = { id, segments: [], bytes: 0, accepted: undefined, isOver: false }
    this.#kept.set(id, record)
    return record
  }

  /** Takes up a record that an earlier process kept. */
  take(record: KeptRecord): void {
    this.#kept.set(record.id, record)
    this.#bytes += record.bytes
    for (const segment of record.segments) segment.live += 1
  }

  /** Notes that a line of a record was written. */
  place(record: KeptRecord, segment: Segment): void {
    if (record.segments.includes(segment)) return
    record.segments.push(segment)
    segment.live += 1
  }

  /** Notes that a record has become larger. */
  grow(record: KeptRecord, bytes: number): void {
    record.bytes += bytes
    if (!record.isOver) this.#bytes += bytes
  }

  /** Ends a record. */
  forget(record: KeptRecord): void {
    if (record.isOver) return
    record.isOver = true
    this.#kept.delete(record.id)
    this.#bytes -= record.bytes
    for (const segment of record.segments) segment.isStale = true
    this.#unsaid.add(record)
  }

  /** A segment says that a record is over: those that have its lines need not be kept for it. */
  letGo(record: KeptRecord): void {
    this.#unsaid.delete(record)
    for (const segment of record.segments) segment.live -= 1
  }
}
