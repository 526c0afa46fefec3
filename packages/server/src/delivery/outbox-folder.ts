import { access, constants, mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { writeFileAtomically } from '@osmosis/core/files'

import { lockFolder, type ProcessLock } from './process-lock.ts'

/** Only files with names of the outbox are touched: the folder may hold others. */
const unfinishedName = /^[0-9a-f-]{36}\.refused\.[0-9a-f-]{36}\.tmp$/

/**
 * The folder of an outbox, for one process at a time. Its files hold bearer keys; only the owner of
 * the process can read them.
 */
export class OutboxFolder {
  readonly path: string
  #lock: ProcessLock | undefined

  constructor(folder: string) {
    this.path = path.resolve(folder)
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
    } catch (cause) {
      throw new OsmosisError(
        'invalid_config',
        `The outbox must be a folder that can be written to: ${errorMessage(cause)}`,
        { cause },
      )
    }
    this.#lock = await lockFolder(this.path)
    for (const name of await readdir(this.path)) {
      if (unfinishedName.test(name)) await rm(path.join(this.path, name), { force: true })
    }
  }

  /** Lets other processes have the folder. */
  async close(): Promise<void> {
    const lock = this.#lock
    this.#lock = undefined
    await lock?.release()
  }

  /** Writes a file for people about a record; when this resolves it survives the machine. */
  async setAside(id: string, text: string): Promise<void> {
    await writeFileAtomically(path.join(this.path, `${id}.refused`), text, { mode: 0o600 })
  }
}

/** A disk that takes nothing more has what is to be told all the same. */
function unlessReadOnly(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EROFS') throw error
}
