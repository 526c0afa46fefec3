import { fstatSync, statSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import path from 'node:path'

import { syncFolder } from '@osmosis/runtime/files'

/** A file that grows at its end and nowhere else. Only its owner may read it: it may hold bearer keys. */
export class AppendedFile {
  readonly path: string
  #handle: FileHandle | undefined
  #size: number
  #isNameDurable = false

  /** @param size - of the file, where there is one. Bytes */
  constructor(file: string, size = 0) {
    this.path = file
    this.#size = size
  }

  /** What was appended, without a failed one. Bytes. */
  get size(): number {
    return this.#size
  }

  /**
   * Resolves when the text survives the process; with `sync` also the machine.
   *
   * @throws the error of the file system; some of the text may be in the file then, see {@link cut}
   */
  async append(text: string, { sync }: { readonly sync: boolean }): Promise<void> {
    this.#handle ??= await open(this.path, 'a', 0o600)
    const bytes = Buffer.from(text)
    await this.#handle.writeFile(bytes)
    if (sync) {
      await this.#handle.datasync()
      if (!this.#isNameDurable) await syncFolder(path.dirname(this.path))
      this.#isNameDurable = true
    }
    this.#assertIsThere(this.#handle)
    this.#size += bytes.length
  }

  /**
   * Takes back what a failed `append` left.
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

  /**
   * A file takes whatever is written to it as long as it is open, also when it was removed, or is
   * somewhere else together with its folder: the next process would not find it.
   */
  #assertIsThere({ fd }: FileHandle): void {
    const { nlink, ino } = fstatSync(fd)
    if (nlink > 0 && statSync(this.path, { throwIfNoEntry: false })?.ino === ino) return
    throw Object.assign(new Error(`ENOENT: ${this.path} was removed`), { code: 'ENOENT' })
  }
}
