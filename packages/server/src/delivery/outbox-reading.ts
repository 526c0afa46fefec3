import type { KeptRecord } from './outbox-kept.ts'
import { lineKinds, noteKinds } from './outbox-lines.ts'
import type { Segment, SegmentLine } from './outbox-segment.ts'

/** A record that an earlier process left. */
export interface FoundRecord {
  readonly record: KeptRecord
  /** In the order in which they came. */
  readonly lines: readonly string[]
}

/** What {@link findRecords} finds. */
export interface FoundRecords {
  /** Those that are not over. */
  readonly records: readonly FoundRecord[]
  /** Ids of those that are over because nothing else could be written about them. */
  readonly struckOut: ReadonlySet<string>
}

interface PlacedLine extends SegmentLine {
  readonly head: NonNullable<SegmentLine['head']>
  readonly segment: Segment
}

/**
 * Reads all segments, the oldest first. A line may be there twice, and later than those behind it: segments
 * are copied when most of them is out of date. What says that a record is over is right wherever it is.
 */
export async function findRecords(segments: readonly Segment[]): Promise<FoundRecords> {
  const found = new Map<string, PlacedLine[]>()
  const over = new Set<string>()
  const struckOut = new Set<string>()
  for (const segment of segments) {
    for (const line of await segment.lines()) {
      const { head } = line
      if (head === undefined) segment.isUnreadable = true
      else if (head.kind === 'over') {
        over.add(head.id)
        found.delete(head.id)
        if (line.text.startsWith('-')) struckOut.add(head.id)
      } else if (!over.has(head.id)) {
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
  // A newer version may have written them: what they mean, and whether the record is over, it knows alone.
  const isForeign = lines.some(({ head }) => !lineKinds.has(head.kind))
  const accepted = lines.findLast(({ head }) => head.kind === 'accepted')
  // Its acceptance went with a segment, so it is over, whatever is left of it.
  if (accepted === undefined && !isForeign) return []
  const ordered = isForeign ? undefined : inOrder(lines)
  if (accepted === undefined || ordered === undefined) {
    for (const segment of segments) segment.isUnreadable = true
    return []
  }
  const bytes = lines.reduce((sum, { text }) => sum + Buffer.byteLength(text) + 1, 0)
  const { segment, offset } = accepted
  const record = { id, segments, bytes, accepted: { segment, offset }, isOver: false }
  return [{ record, lines: ordered }]
}

/** Each step once, and what is noted behind its step; undefined where a step is missing. */
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
