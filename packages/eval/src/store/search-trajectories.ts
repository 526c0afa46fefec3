import { open } from 'node:fs/promises'

import type { ItemEvent } from '../analysis/item-event.ts'
import { isSaid } from '../analysis/said-text.ts'
import { segmentFile } from './run-files.ts'

const chunkSize = 4 * 1024 * 1024

type Located = Pick<ItemEvent, 'at'>

interface Place<T> {
  readonly item: T
  /** In the segment. Bytes. */
  readonly offset: number
  readonly length: number
}

/** The items whose trajectories say a text. Segments are read in pieces. */
export async function* searchTrajectories<T extends Located>(
  location: string,
  items: Iterable<T>,
  text: string,
  signal?: AbortSignal,
): AsyncGenerator<T, void, undefined> {
  const says = matcher(text)
  const piece = new Piece()
  for (const [segment, places] of bySegment(items)) {
    const file = segmentFile(location, 'trajectories', segment)
    for await (const [bytes, item] of storedLines(file, places, piece)) {
      signal?.throwIfAborted()
      if (says(bytes)) yield item
    }
  }
}

/** Segments in their order, and within each the places in theirs. */
function bySegment<T extends Located>(items: Iterable<T>): [segment: number, places: Place<T>[]][] {
  const segments = new Map<number, Place<T>[]>()
  for (const item of items) {
    if (item.at === null) continue
    const [segment, offset, length] = item.at
    const places = segments.get(segment) ?? []
    segments.set(segment, places)
    places.push({ item, offset, length })
  }
  return [...segments]
    .toSorted(([a], [b]) => a - b)
    .map(([segment, places]) => [segment, places.toSorted((a, b) => a.offset - b.offset)])
}

/** What is read into, again and again: fresh buffers would fill memory faster than it is freed. */
class Piece {
  #bytes = Buffer.allocUnsafe(chunkSize)

  /** At least so long. */
  of(length: number): Buffer {
    if (length > this.#bytes.length) this.#bytes = Buffer.allocUnsafe(length)
    return this.#bytes
  }
}

/**
 * Reads as many lines at once as fit into a piece. Missing ones are left out. The bytes of a line are
 * good until the next.
 */
async function* storedLines<T>(
  file: string,
  places: readonly Place<T>[],
  piece: Piece,
): AsyncGenerator<[bytes: Buffer, item: T], void, undefined> {
  const handle = await open(file).catch(() => undefined)
  if (handle === undefined) return
  try {
    let bytes: Buffer = Buffer.alloc(0)
    /** Of `bytes[0]` in the file. */
    let offset = 0
    for (const place of places) {
      if (place.offset + place.length > offset + bytes.length) {
        offset = place.offset
        const into = piece.of(place.length)
        const { bytesRead } = await handle.read(into, 0, into.length, offset)
        bytes = into.subarray(0, bytesRead)
      }
      const start = place.offset - offset
      yield [bytes.subarray(start, start + place.length), place.item]
    }
  } finally {
    await handle.close()
  }
}

/**
 * Most lines do not hold the text at all, which is seen without parsing them; of those that do, most
 * hold it in a message. ASCII is the same in every encoding that is used here, and single bytes are
 * the quickest to turn into text.
 */
function matcher(text: string): (line: Buffer) => boolean {
  const wanted = text.toLowerCase()
  const escaped = JSON.stringify(wanted).slice(1, -1)
  const encoding = /^[\0-\x7f]*$/.test(text) ? 'latin1' : 'utf8'
  return (bytes) => {
    const line = bytes.toString(encoding).toLowerCase()
    if (!line.includes(escaped)) return false
    if (isInText(line, escaped, '"message":"') || isInText(line, escaped, '"content":"'))
      return true
    try {
      const { samples } = JSON.parse(bytes.toString()) as { samples: unknown }
      return isSaid(samples, wanted)
    } catch {
      // Damaged: what it said is not known.
      return false
    }
  }
}

/** Whether a text of the line that begins with `opening` holds `wanted`: both as JSON writes them. */
function isInText(line: string, wanted: string, opening: string): boolean {
  let hit = -1
  let start = line.indexOf(opening)
  while (start !== -1) {
    start += opening.length
    if (hit < start) hit = line.indexOf(wanted, start)
    if (hit === -1) return false
    const end = closingQuote(line, start)
    // Behind a backslash it may be a part of an escape: `\nice` says "ice", not "nice".
    if (hit + wanted.length <= end && line[hit - 1] !== '\\') return true
    start = line.indexOf(opening, end)
  }
  return false
}

function closingQuote(line: string, start: number): number {
  let end = line.indexOf('"', start)
  while (end !== -1 && isEscaped(line, end)) end = line.indexOf('"', end + 1)
  return end === -1 ? line.length : end
}

function isEscaped(line: string, at: number): boolean {
  let backslashes = 0
  while (line[at - 1 - backslashes] === '\\') backslashes += 1
  return backslashes % 2 === 1
}
