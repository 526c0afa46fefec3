import { closeSync, fstatSync, openSync, existsSync, readFileSync, truncateSync } from 'node:fs'

import { AppendedFile, WriteGroups, type FolderLock } from '@osmosis/protocol/files'

import { trainingJournalFile } from '../read/training-folder.ts'
import { fileMode, storageError } from '../run-files.ts'

/** A line that was appended and is not necessarily on the disk yet. */
export interface AppendedLine {
  /** Bytes from the beginning of the file. */
  readonly offset: number
  /** With its newline. */
  readonly bytes: Buffer
  /** Resolves when the line is on the disk. */
  readonly durable: Promise<void>
}

/**
 * An append-only file of lines. Lines that arrive during a write share the next one. A file that cannot be opened rejects
 * the lines, as one does that cannot be written.
 */
export class AppendFile {
  readonly path: string
  readonly #file: AppendedFile
  readonly #groups = new WriteGroups<Buffer>(
    (lines) => this.#write(lines),
    ({ length }) => length,
    Infinity,
  )
  readonly #lock: FolderLock
  readonly #onFailure: (error: Error) => void
  #end = 0
  /** Why the file could not be opened; the first line that is appended reports it. */
  readonly #openingError: Error | undefined
  #failure: Error | undefined

  /**
   * @param lock - no line is written after it was lost
   * @param onFailure - called before pending lines are rejected
   */
  constructor(file: string, lock: FolderLock, onFailure: (error: Error) => void) {
    this.path = file
    this.#lock = lock
    this.#onFailure = onFailure
    try {
      // Readers need the file before it has a line.
      const descriptor = openSync(file, 'a', fileMode)
      this.#end = fstatSync(descriptor).size
      closeSync(descriptor)
    } catch (error) {
      this.#openingError = error as Error
    }
    this.#file = new AppendedFile(file, this.#end)
  }

  /** Offset of the next line. Bytes. */
  get end(): number {
    return this.#end
  }

  /** @param text - without its newline */
  append(text: string): AppendedLine {
    const offset = this.#end
    const bytes = toLine(text)
    this.#end += bytes.length
    return { offset, bytes, durable: this.#groups.add(bytes) }
  }

  /** Rejects pending and future lines with the first error, which it returns; a write that has started continues. */
  refuse(error: Error): Error {
    this.#failure ??= error
    return this.#failure
  }

  /** Waits for the lines that were appended. */
  async close(): Promise<void> {
    await this.#groups.idle()
    await this.#file.close()
  }

  async #write(lines: readonly Buffer[]): Promise<void> {
    // Another file of the same store may have failed first; its error is reported everywhere.
    if (this.#failure !== undefined) throw this.#failure
    try {
      this.#lock.assertHeld()
      if (this.#openingError !== undefined) throw this.#openingError
      await this.#file.append(Buffer.concat(lines), { sync: true })
    } catch (cause) {
      // If that fails as well, the next writer truncates the file.
      if (!this.#lock.isLost) await this.#file.cut().catch(() => {})
      const error = await storageError(this.path, cause)
      this.#onFailure(error)
      throw this.refuse(error)
    }
  }
}

/** Adds the newline as a byte: concatenating it as text would copy the whole line. */
function toLine(text: string): Buffer {
  const length = Buffer.byteLength(text)
  const line = Buffer.allocUnsafe(length + 1)
  line.write(text)
  line[length] = 0x0a
  return line
}

/**
 * Opens the journal of a training to append records. A last line that a crash
 * cut off is removed.
 *
 * @param onFailure - called before records that could not be written are rejected
 */
export function openTrainingJournal(
  folder: string,
  lock: FolderLock,
  onFailure: (error: Error) => void,
): AppendFile {
  const file = trainingJournalFile(folder)
  if (existsSync(file)) {
    const bytes = readFileSync(file)
    truncateSync(file, bytes.lastIndexOf('\n') + 1)
  }
  return new AppendFile(file, lock, onFailure)
}
