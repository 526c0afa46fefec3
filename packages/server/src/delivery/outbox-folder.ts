import { access, constants, mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { writeFileAtomically } from '@osmosis/runtime/files'

import { FolderLock, type FolderLockOptions } from './folder-lock.ts'

/** Only files with names of the outbox are touched: the folder may hold others. */
const unfinishedName = /^[0-9a-f-]{36}\.refused\.[0-9a-f-]{36}\.tmp$/

/**
 * The folder of an outbox, for one process at a time. Its files hold bearer keys; only the owner of
 * the process can read them.
 */
export class OutboxFolder {
  readonly path: string
  readonly #options: FolderLockOptions
  #lock: FolderLock | undefined

  constructor(folder: string, options: FolderLockOptions) {
    this.path = path.resolve(folder)
    this.#options = options
  }

  /** Whether another process has taken it over, for whom everything in it is from then on. */
  get isLost(): boolean {
    return this.#lock?.isLost === true
  }

  /**
   * Takes the folder for this process.
   *
   * @throws OsmosisError with code `invalid_config` when it is no folder that can be written to, or
   * another process uses it
   */
  async open(): Promise<void> {
    try {
      await mkdir(this.path, { recursive: true, mode: 0o700 })
      await access(this.path, constants.R_OK | constants.W_OK | constants.X_OK).catch(
        unlessReadOnly,
      )
      this.#lock = await FolderLock.take(this.path, this.#options)
    } catch (cause) {
      if (isOsmosisError(cause)) throw cause
      throw new OsmosisError(
        'invalid_config',
        `The outbox must be a folder that can be written to: ${errorMessage(cause)}`,
        { cause },
      )
    }
    for (const name of await readdir(this.path)) {
      if (unfinishedName.test(name)) await rm(path.join(this.path, name), { force: true })
    }
  }

  /** Lets other processes have the folder. */
  async close(): Promise<void> {
    await this.#lock?.release()
  }

  /**
   * To be called before something in the folder is changed, and before what was kept there is shown.
   *
   * @throws OsmosisError with code `storage_error` when another process has taken the folder over
   */
  assertHeld(): void {
    this.#lock?.assertHeld()
  }

  /** Writes a file for people about a record; when this resolves it survives the machine. */
  async setAside(id: string, text: string): Promise<void> {
    this.assertHeld()
    await writeFileAtomically(path.join(this.path, `${id}.refused`), text, { mode: 0o600 })
  }
}

/** A disk that takes nothing more has what is to be told all the same. */
function unlessReadOnly(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EROFS') throw error
}
