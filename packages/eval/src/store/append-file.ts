import { close, closeSync, fdatasync, fstatSync, ftruncateSync, openSync, writev } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { syncFolder } from '@osmosis/core/files'

import { fileMode } from './run-files.ts'
import { storageError } from './storage-error.ts'

const [writeAll, sync, closeFile] = [promisify(writev), promisify(fdatasync), promisify(close)]

interface Waiting {
  readonly bytes: Buffer
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * A file that grows at its end and nowhere else. What waits while a write is on its way to the disk
 * goes into the next one, all at once.
 */
export class AppendFile {
  readonly path: string
  readonly #descriptor: number
  readonly #onFailure: (error: Error) => void
  #waiting: Waiting[] = []
  #writing: Promise<void> | undefined
  /** Where the next line will lie. */
  #end: number
  /** Up to here everything is on the disk. */
  #durable: number
  #isNameDurable: boolean
  #failure: Error | undefined

  /** @param onFailure - called once, before those who wait are */
  constructor(file: string, onFailure: (error: Error) => void) {
    this.path = file
    this.#onFailure = onFailure
    this.#descriptor = openSync(file, 'a', fileMode)
    this.#durable = this.#end = fstatSync(this.#descriptor).size
    this.#isNameDurable = this.#end > 0
  }

  /** Where the next line will lie. Bytes from the beginning of the file. */
  get end(): number {
    return this.#end
  }

  /** Resolves when the line is on the disk. */
  append(bytes: Buffer): Promise<void> {
    this.#end += bytes.length
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) {
        reject(this.#failure)
        return
      }
      this.#waiting.push({ bytes, resolve, reject })
      this.#writing ??= this.#write()
    })
  }

  /** Refuses what waits and whatever comes; a write that has begun goes on. */
  refuse(error: Error): void {
    this.#failure ??= error
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure)
  }

  /** Waits for what was appended. */
  async close(): Promise<void> {
    await this.#writing
    await closeFile(this.#descriptor)
  }

  async #write(): Promise<void> {
    // What is appended in the same turn of the event loop belongs to this group.
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0)
      try {
        await this.#writeGroup(group.map(({ bytes }) => bytes))
        for (const { resolve } of group) resolve()
      } catch (cause) {
        const error = await storageError(this.path, cause)
        this.#onFailure(error)
        for (const { reject } of group) reject(error)
        this.refuse(error)
      }
    }
    this.#writing = undefined
  }

  async #writeGroup(lines: readonly Buffer[]): Promise<void> {
    try {
      let rest = lines
      while (rest.length > 0) {
        // A disk that is nearly full takes a part, and says what is wrong when it gets the rest.
        const { bytesWritten } = await writeAll(this.#descriptor, rest)
        rest = withoutFirst(rest, bytesWritten)
      }
      await sync(this.#descriptor)
      if (!this.#isNameDurable) await syncFolder(path.dirname(this.path))
      this.#isNameDurable = true
      this.#durable += lines.reduce((sum, { length }) => sum + length, 0)
    } catch (error) {
      try {
        // Otherwise the next line would follow half of this one.
        ftruncateSync(this.#descriptor, this.#durable)
      } catch {
        // Nothing more is written, and the next writer cuts it.
      }
      throw error
    }
  }
}

function withoutFirst(buffers: readonly Buffer[], bytes: number): readonly Buffer[] {
  let left = bytes
  for (const [index, buffer] of buffers.entries()) {
    if (left < buffer.length) return [buffer.subarray(left), ...buffers.slice(index + 1)]
    left -= buffer.length
  }
  return []
}

/** Cuts a file that nobody has open. */
export function truncate(file: string, length: number): void {
  const descriptor = openSync(file, 'r+')
  try {
    ftruncateSync(descriptor, length)
  } finally {
    closeSync(descriptor)
  }
}
