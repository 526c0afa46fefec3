import { close, closeSync, fdatasync, fstatSync, ftruncateSync, openSync, write } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

import { syncFolder } from '@osmosis/protocol/files'

import { fileMode, storageError } from '../run-files.ts'

const [writeBytes, sync, closeFile] = [promisify(write), promisify(fdatasync), promisify(close)]
/** The initial size of a buffer, and the largest size that is reused. Bytes. */
const [initialSize, maxReusedSize] = [64 * 1024, 1024 * 1024]

interface PendingLine {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** A line that was appended and is not necessarily on the disk yet. */
export interface AppendedLine {
  /** Bytes from the beginning of the file. */
  readonly offset: number
  /** With its newline. Valid only until the caller awaits anything, because the buffer is reused. */
  readonly bytes: Buffer
  /** Resolves when the line is on the disk. */
  readonly durable: Promise<void>
}

/** An append-only file. Lines that arrive during a write share the next one. */
export class AppendFile {
  readonly path: string
  readonly #descriptor: number
  readonly #onFailure: (error: Error) => void
  #pending: PendingLine[] = []
  /** The bytes of the pending lines. */
  #lines = Buffer.allocUnsafe(initialSize)
  #length = 0
  /** Filled while the other buffer is written: one buffer per line would create garbage. */
  #spare = Buffer.allocUnsafe(initialSize)
  #writing: Promise<void> | undefined
  #end: number
  /** Everything before this offset is on the disk. */
  #durable: number
  #isNameDurable: boolean
  #failure: Error | undefined

  /** @param onFailure - called before pending lines are rejected */
  constructor(file: string, onFailure: (error: Error) => void) {
    this.path = file
    this.#onFailure = onFailure
    this.#descriptor = openSync(file, 'a', fileMode)
    this.#durable = this.#end = fstatSync(this.#descriptor).size
    this.#isNameDurable = this.#end > 0
  }

  /** Offset of the next line. Bytes. */
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
      this.#pending.push({ resolve, reject })
      this.#writing ??= this.#write()
    })
    return { offset, bytes, durable }
  }

  /** Rejects pending and future lines; a write that has started continues. */
  refuse(error: Error): void {
    this.#failure ??= error
    for (const { reject } of this.#pending.splice(0)) reject(this.#failure)
  }

  /** Waits for the lines that were appended. */
  async close(): Promise<void> {
    await this.#writing
    await closeFile(this.#descriptor)
  }

  /** Adds the newline as a byte: concatenating it as text would copy the whole line. */
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
    // Lines that are appended in the same turn of the event loop belong to this group.
    await Promise.resolve()
    while (this.#pending.length > 0) {
      const group = this.#pending.splice(0)
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
        // Another file of the same store may have failed first; its error is reported everywhere.
        for (const { reject } of group) reject(this.#failure)
      }
      this.#spare = written.length > maxReusedSize ? Buffer.allocUnsafe(initialSize) : written
    }
    this.#writing = undefined
  }

  async #writeGroup(lines: Buffer): Promise<void> {
    try {
      let written = 0
      while (written < lines.length) {
        // A nearly full disk accepts a part, and reports the error for the rest.
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
        // Nothing more is written, and the next writer truncates the file.
      }
      throw error
    }
  }
}

/** Truncates a file that is not open. */
export function truncate(file: string, length: number): void {
  const descriptor = openSync(file, 'r+')
  try {
    ftruncateSync(descriptor, length)
  } finally {
    closeSync(descriptor)
  }
}
