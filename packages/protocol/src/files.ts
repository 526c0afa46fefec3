import { randomUUID } from 'node:crypto'
import { fstatSync, statSync } from 'node:fs'
import { chmod, open, readdir, rename, rm, statfs, type FileHandle } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'

export { FolderLock, ownerOf, type FolderLockOptions, type LockOwner } from './files/folder-lock.ts'
export { type ProcessLock } from './files/process-lock.ts'

/** Options of {@link writeFileAtomically}. */
export interface AtomicWriteOptions {
  /** Permissions of the file, such as `0o600`; default: those of new files of the process. */
  readonly mode?: number | undefined
  /**
   * What survives a power failure once the promise has resolved: the text and its name
   * (`file-and-folder`, the default), the text under its old or new name (`file`), or no guarantee
   * (`nothing`).
   */
  readonly sync?: 'file-and-folder' | 'file' | 'nothing' | undefined
}

/**
 * Replaces a file so that readers, also after a crash, see either the old text or the new one. Until
 * then the text is in `<file>.<uuid>.tmp`, which only a crash leaves behind.
 *
 * @param text - the text, or its pieces in order; each is written before the next is requested
 * @throws the error of the file system
 */
export async function writeFileAtomically(
  file: string,
  text: string | Iterable<string | Uint8Array>,
  { mode = 0o666, sync = 'file-and-folder' }: AtomicWriteOptions = {},
): Promise<void> {
  const unfinished = `${file}.${randomUUID()}.tmp`
  try {
    const handle = await open(unfinished, 'wx', mode)
    try {
      await handle.writeFile(text)
      if (sync !== 'nothing') await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(unfinished, file)
  } catch (error) {
    // On a full disk it would take the room of the next file.
    await rm(unfinished, { force: true })
    throw error
  }
  if (sync === 'file-and-folder') await syncFolder(path.dirname(file))
}

/** Makes the names in a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open folders, and makes names durable itself.
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

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

/**
 * The error of a failed write, with code `storage_error`: which file, and how much is free.
 *
 * @param advice - sentences: what is stored, and how to continue
 */
export async function failedWrite(
  file: string,
  cause: unknown,
  advice: string,
): Promise<OsmosisError> {
  const folder = path.dirname(file)
  const failed = `Cannot write to ${file}: ${errorMessage(cause)}.`
  if (['EACCES', 'EPERM', 'EROFS'].includes((cause as NodeJS.ErrnoException).code ?? '')) {
    const permit = `Let this user write to ${folder}, or choose another folder.`
    return new OsmosisError('storage_error', `${failed} ${permit}`, { cause })
  }
  const free = await statfs(folder).then(
    ({ bavail, bsize }) => ` ${formatBytes(bavail * bsize)} are free in ${folder}.`,
    () => '',
  )
  return new OsmosisError('storage_error', `${failed}${free} ${advice}`, { cause })
}

/** The error of a full disk as {@link failedWrite} makes it, and every other error as it is. */
export async function namedFullDisk(
  error: unknown,
  { folder, advice }: { readonly folder: string; readonly advice: string },
): Promise<unknown> {
  const { code = '', path: file } = error as NodeJS.ErrnoException
  if (!['ENOSPC', 'EDQUOT', 'EFBIG'].includes(code)) return error
  return failedWrite(file ?? path.join(folder, '.'), error, advice)
}

function formatBytes(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1)
  const value = bytes / 1024 ** power
  return `${power === 0 ? value : value.toFixed(1)} ${units[power]}`
}

/**
 * Deletes a folder in which a model's code may have made anything. `rm` alone fails at paths that are longer than the system
 * accepts, and at folders that cannot be read.
 *
 * @throws the error of the file system
 */
export async function removeTree(folder: string): Promise<void> {
  const options = { recursive: true, force: true, maxRetries: 3 }
  try {
    await rm(folder, options)
  } catch {
    // What is below each folder moves up to the top, so that no path gets longer.
    let folders = await foldersIn(folder)
    while (folders.length > 0) {
      for (const each of folders) {
        for (const below of await foldersIn(each)) {
          // A folder that moves is written to.
          await chmod(below, 0o700)
          await rename(below, path.join(folder, randomUUID()))
        }
        await rm(each, options)
      }
      folders = await foldersIn(folder)
    }
    await rm(folder, options)
  }
}

async function foldersIn(folder: string): Promise<string[]> {
  await chmod(folder, 0o700)
  const entries = await readdir(folder, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => path.join(folder, name))
}
