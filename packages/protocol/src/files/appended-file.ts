import { fstatSync, statSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import path from 'node:path'

import { syncFolder } from './atomic-write.ts'

/** A file that only grows at its end. Only its owner may read it: it may contain bearer keys. */
export class AppendedFile {
  readonly path: string
  #handle: FileHandle | undefined
  #size: number
  #isNameDurable = false

  /** @param size - of an existing file. Bytes */
  constructor(file: string, size = 0) {
    this.path = file
    this.#size = size
  }

  /** Bytes of the file up to the end of its last successful append. */
  get size(): number {
    return this.#size
  }

  /**
   * Resolves when the text survives the process; with `sync` also the machine. One call at a time.
   *
   * @throws the error of the file system; the file may then contain a part of the text, see {@link cut}
   */
  async append(text: string | Uint8Array, { sync }: { readonly sync: boolean }): Promise<void> {
    this.#handle ??= await open(this.path, 'a', 0o600)
    const bytes = typeof text === 'string' ? Buffer.from(text) : text
    await this.#handle.writeFile(bytes)
    if (sync) {
      await this.#handle.datasync()
      if (!this.#isNameDurable) await syncFolder(path.dirname(this.path))
      this.#isNameDurable = true
    }
    this.#assertExists(this.#handle)
    this.#size += bytes.length
  }

  /**
   * Removes the part of a failed `append`.
   *
   * @throws the error of the file system
   */
  async cut(): Promise<void> {
    await this.#handle?.truncate(this.#size)
    await this.#handle?.datasync()
  }

  async close(): Promise<void> {
    const handle = this.#handle
    this.#handle = undefined
    await handle?.close()
  }

  /** An open file accepts writes after it was removed, or moved with its folder. The next process would not find it. */
  #assertExists({ fd }: FileHandle): void {
    const { nlink, ino } = fstatSync(fd)
    if (nlink > 0 && statSync(this.path, { throwIfNoEntry: false })?.ino === ino) return
    throw Object.assign(new Error(`ENOENT: ${this.path} was removed`), { code: 'ENOENT' })
  }
}
