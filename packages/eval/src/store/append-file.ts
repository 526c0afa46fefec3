import { close, closeSync, fdatasync, fstatSync, ftruncateSync, openSync, write } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { syncFolder } from '@osmosis/runtime/files'

import { fileMode } from './run-files.ts'
import { storageError } from './storage-error.ts'

const [writeBytes, sync, closeFile] = [promisify(write), promisify(fdatasync), promisify(close)]
/** What a buffer has room for at first, and the largest that is used again. Bytes. */
const [leastRoom, mostRoom] = [64 * 1024, 1024 * 1024]

interface Waiting {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** A line that is on its way to the disk. */
export interface AppendedLine {
  /** Where it lies. Bytes from the beginning of the file. */
  readonly offset: number
  /** With its newline. They are those of another line when the caller has waited for anything. */
  readonly bytes: Buffer
  /** Resolves when the line is on the disk. */
  readonly durable: Promise<void>
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
  /** The lines of those who wait, behind one another. */
  #lines = Buffer.allocUnsafe(leastRoom)
  #length = 0
  /** The one that is filled while the other is written: a buffer for each line would be garbage. */
  #spare = Buffer.allocUnsafe(leastRoom)
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

  /** @param text - without its newline */
  append(text: string): AppendedLine {
    const offset = this.#end
    const bytes = this.#place(text)
    this.#end += bytes.length
    const durable = new Promise<void>((resolve, reject) => {
      if (this.#failure !== undefined) {
        reject(this.#failure)
        return
      }
      this.#waiting.push({ resolve, reject })
      this.#writing ??= this.#write()
    })
    return { offset, bytes, durable }
  }

  /** Refuses what waits and whatever comes; a write that has started continues. */
  refuse(error: Error): void {
    this.#failure ??= error
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure)
  }

  /** Waits for what was appended. */
  async close(): Promise<void> {
    await this.#writing
    await closeFile(this.#descriptor)
  }

  /** Adds the newline as a byte: as text it would copy the whole line. */
  #place(text: string): Buffer {
    const start = this.#length
    const newline = start + Buffer.byteLength(text)
    const end = newline + 1
    if (end > this.#lines.length) {
      const larger = Buffer.allocUnsafe(Math.max(end, 2 * this.#lines.length))
      this.#lines.copy(larger, 0, 0, start)
      this.#lines = larger
    }
    this.#lines.write(text, start)
    this.#lines[newline] = 0x0a
    this.#length = end
    return this.#lines.subarray(start, end)
  }

  async #write(): Promise<void> {
    // What is appended in the same turn of the event loop belongs to this group.
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0)
      const lines = this.#lines.subarray(0, this.#length)
      const written = this.#lines
      this.#lines = this.#spare
      this.#length = 0
      try {
        await this.#writeGroup(lines)
        for (const { resolve } of group) resolve()
      } catch (cause) {
        const error = await storageError(this.path, cause)
        this.#onFailure(error)
        this.refuse(error)
        // Another file of the same store may have failed first: there is one reason for all.
        for (const { reject } of group) reject(this.#failure)
      }
      this.#spare = written.length > mostRoom ? Buffer.allocUnsafe(leastRoom) : written
    }
    this.#writing = undefined
  }

  async #writeGroup(lines: Buffer): Promise<void> {
    try {
      let written = 0
      while (written < lines.length) {
        // A disk that is nearly full takes a part, and says what is wrong when it gets the rest.
        const rest = lines.length - written
        written += (await writeBytes(this.#descriptor, lines, written, rest)).bytesWritten
      }
      await sync(this.#descriptor)
      if (!this.#isNameDurable) await syncFolder(path.dirname(this.path))
      this.#isNameDurable = true
      this.#durable += lines.length
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

/** Cuts a file that nobody has open. */
export function truncate(file: string, length: number): void {
  const descriptor = openSync(file, 'r+')
  try {
    ftruncateSync(descriptor, length)
  } finally {
    closeSync(descriptor)
  }
}
