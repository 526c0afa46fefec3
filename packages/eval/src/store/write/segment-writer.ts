import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'

import type { SegmentPlace } from '../../analysis/records/item-event.ts'
import { folderMode, segmentFile, segmentOf, type SegmentKind, storageError } from '../run-files.ts'
import { AppendFile, truncate } from './append-file.ts'

/** When a segment has reached this size, a new one is started. Bytes. */
const segmentSize = 64 * 1024 * 1024

/** Appends lines to the segments of one kind. */
export class SegmentWriter {
  readonly #location: string
  readonly #kind: SegmentKind
  readonly #onFailure: (error: Error) => void
  readonly #open = new Set<AppendFile>()
  readonly #closing: Promise<void>[] = []
  #segment: number
  #last: AppendFile | undefined

  /**
   * Truncates segments after the last line to which the journal refers: the rest was never acknowledged.
   *
   * @param ends - the end of that line, by segment
   */
  constructor(
    location: string,
    kind: SegmentKind,
    ends: ReadonlyMap<number, number>,
    onFailure: (error: Error) => void,
  ) {
    this.#location = location
    this.#kind = kind
    this.#onFailure = onFailure
    this.#segment = cutSegments(location, kind, ends)
  }

  /** Resolves with the place of the line when it is on the disk. */
  async append(text: string): Promise<SegmentPlace> {
    let file: AppendFile
    try {
      file = this.#current()
    } catch (cause) {
      const failed = segmentFile(this.#location, this.#kind, this.#segment)
      const error = await storageError(failed, cause)
      this.#onFailure(error)
      throw error
    }
    const { offset, bytes, durable } = file.append(text)
    const place: SegmentPlace = [this.#segment, offset, bytes.length, crc32(bytes)]
    await durable
    return place
  }

  refuse(error: Error): void {
    for (const file of this.#open) file.refuse(error)
  }

  async close(): Promise<void> {
    if (this.#last !== undefined) this.#closing.push(this.#closed(this.#last))
    this.#last = undefined
    await Promise.all(this.#closing)
  }

  /** Synchronous, so that two lines cannot disagree about which segment is the last. */
  #current(): AppendFile {
    if (this.#last !== undefined && this.#last.end >= segmentSize) {
      this.#closing.push(this.#closed(this.#last))
      this.#last = undefined
      this.#segment += 1
    }
    if (this.#last !== undefined) return this.#last
    const file = segmentFile(this.#location, this.#kind, this.#segment)
    this.#last = new AppendFile(file, this.#onFailure)
    this.#open.add(this.#last)
    return this.#last
  }

  async #closed(file: AppendFile): Promise<void> {
    try {
      await file.close()
    } catch (error) {
      this.#onFailure(error as Error)
    }
    this.#open.delete(file)
  }
}

/** Returns the number of the segment to continue with. */
function cutSegments(
  location: string,
  kind: SegmentKind,
  ends: ReadonlyMap<number, number>,
): number {
  const folder = path.join(location, kind)
  mkdirSync(folder, { recursive: true, mode: folderMode })
  const last = Math.max(-1, ...ends.keys())
  for (const name of readdirSync(folder)) {
    const segment = segmentOf(name)
    if (segment !== undefined && segment > last) rmSync(path.join(folder, name))
  }
  if (last === -1) return 0
  const end = ends.get(last) ?? 0
  const file = segmentFile(location, kind, last)
  const size = existsSync(file) ? statSync(file).size : 0
  if (size > end) truncate(file, end)
  // A segment that has lost its end is not continued: its lost places must not be assigned again.
  return size < end ? last + 1 : last
}
