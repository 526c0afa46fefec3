import { fstatSync, statSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import path from 'node:path'

import { syncFolder } from '@osmosis/protocol/files'

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

  /** Bytes of all successful appends. */
  get size(): number {
    return this.#size
  }

  /**
   * Resolves when the text survives the process; with `sync` also the machine.
   *
   * @throws the error of the file system; the file may then contain a part of the text, see {@link cut}
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

interface WaitingItem<T> {
  readonly item: T
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Passes items to `write` in groups, one group after the other. Items that arrive during a write belong to
 * the next group. A disk with two hundred syncs per second can so store thousands of lines per second.
 */
export class WriteGroups<T> {
  readonly #write: (group: readonly T[]) => Promise<void>
  readonly #sizeOf: (item: T) => number
  readonly #maxSize: number
  #waiting: WaitingItem<T>[] = []
  #running: Promise<void> | undefined

  /** @param maxSize - a group of this size gets no further item */
  constructor(
    write: (group: readonly T[]) => Promise<void>,
    sizeOf: (item: T) => number,
    maxSize: number,
  ) {
    this.#write = write
    this.#sizeOf = sizeOf
    this.#maxSize = maxSize
  }

  /** Resolves or rejects with the write of the item's group. */
  async add(item: T): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      this.#running ??= this.#run()
    })
  }

  /** Resolves when no item waits. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await this.#running
  }

  async #run(): Promise<void> {
    // Items of the same turn of the event loop belong to one group.
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, this.#nextLength())
      try {
        await this.#write(group.map(({ item }) => item))
        for (const { resolve } of group) resolve()
      } catch (error) {
        for (const { reject } of group) reject(error)
      }
    }
    this.#running = undefined
  }

  #nextLength(): number {
    let size = 0
    const end = this.#waiting.findIndex(({ item }) => {
      if (size >= this.#maxSize) return true
      size += this.#sizeOf(item)
      return false
    })
    return end === -1 ? this.#waiting.length : end
  }
}
