import { open } from 'node:fs/promises'

import type { ItemEvent } from '../../analysis/records/item-event.ts'
import { transcriptContains } from '../../analysis/trajectory/trajectory-shape.ts'
import { segmentFile } from '../run-files.ts'

const chunkSize = 4 * 1024 * 1024

type Located = Pick<ItemEvent, 'trajectory_place'>

interface Place<T> {
  readonly item: T
  /** In the segment. Bytes. */
  readonly offset: number
  readonly length: number
}

/** The items whose trajectories contain a text. Segments are read in chunks. */
export async function* searchTrajectories<T extends Located>(
  location: string,
  items: Iterable<T>,
  text: string,
  signal?: AbortSignal,
): AsyncGenerator<T, void, undefined> {
  const matches = matcher(text)
  const buffer = new ReadBuffer()
  for (const [segment, places] of bySegment(items)) {
    const file = segmentFile(location, 'trajectories', segment)
    for await (const [bytes, item] of storedLines(file, places, buffer)) {
      signal?.throwIfAborted()
      if (matches(bytes)) yield item
    }
  }
}

/** Sorted by segment, and within each by offset. */
function bySegment<T extends Located>(items: Iterable<T>): [segment: number, places: Place<T>[]][] {
  const segments = new Map<number, Place<T>[]>()
  for (const item of items) {
    if (item.trajectory_place === null) continue
    const [segment, offset, length] = item.trajectory_place
    const places = segments.get(segment) ?? []
    segments.set(segment, places)
    places.push({ item, offset, length })
  }
  return [...segments]
    .toSorted(([a], [b]) => a - b)
    .map(([segment, places]) => [segment, places.toSorted((a, b) => a.offset - b.offset)])
}

/** A buffer that is reused: new buffers would fill memory faster than it is freed. */
class ReadBuffer {
  #bytes = Buffer.allocUnsafe(chunkSize)

  /** With at least this length. */
  get(length: number): Buffer {
    if (length > this.#bytes.length) this.#bytes = Buffer.allocUnsafe(length)
    return this.#bytes
  }
}

/**
 * Reads as many lines at once as fit into the buffer. The bytes of a line are valid until the next one is
 * requested.
 */
async function* storedLines<T>(
  file: string,
  places: readonly Place<T>[],
  buffer: ReadBuffer,
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
        const into = buffer.get(place.length)
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
 * Most lines do not contain the text, which needs no parsing to find out; most of the others have it in a
 * message. ASCII is the same in both encodings, and latin1 is the fastest to decode.
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
      return transcriptContains(samples, wanted)
    } catch {
      // A damaged line matches nothing.
      return false
    }
  }
}

/** Whether a JSON string of the line that follows `opening` contains `wanted`, which is escaped as JSON. */
function isInText(line: string, wanted: string, opening: string): boolean {
  let hit = -1
  let start = line.indexOf(opening)
  while (start !== -1) {
    start += opening.length
    if (hit < start) hit = line.indexOf(wanted, start)
    if (hit === -1) return false
    const end = closingQuote(line, start)
    // After a backslash it may be a part of an escape: `\nice` means "ice", not "nice".
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
