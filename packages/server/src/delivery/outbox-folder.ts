import { constants } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm, truncate } from 'node:fs/promises'
import path from 'node:path'

import { ConcurrencyLimiter, errorMessage, OsmosisError } from '@osmosis/core'
import { syncFolder, writeFileAtomically } from '@osmosis/core/files'

import { lockFolder, type ProcessLock } from './process-lock.ts'

/** Results may end by the thousand at once, and files that can be open are few. */
const actsAtOnce = 16
const never = new AbortController().signal

/** How an existing file is written to. */
export interface AppendOptions {
  /** Whether the text survives the machine when the promise resolves, and not only the process. */
  readonly sync: boolean
  /** Whether it is made when it is not there; default false. */
  readonly create?: boolean
}

/**
 * The files of an outbox, for one process at a time. They hold bearer keys; only the owner of the
 * process can read them.
 */
export class OutboxFolder {
  readonly path: string
  readonly #slots = new ConcurrencyLimiter(actsAtOnce)
  readonly #acts = new Set<Promise<unknown>>()
  readonly #syncNames: () => Promise<void>
  #lock: ProcessLock | undefined

  constructor(folder: string) {
    this.path = path.resolve(folder)
    this.#syncNames = shareRuns(async () => syncFolder(this.path))
  }

  /**
   * Takes the folder for this process.
   *
   * @throws OsmosisError with code `invalid_config` when it is no folder, or another process uses it
   */
  async open(): Promise<void> {
    try {
      await mkdir(this.path, { recursive: true, mode: 0o700 })
    } catch (cause) {
      throw new OsmosisError(
        'invalid_config',
        `The outbox must be a folder that can be written to: ${errorMessage(cause)}`,
        { cause },
      )
    }
    this.#lock = await lockFolder(this.path)
  }

  /** Finishes what was begun, and lets other processes have the folder. */
  async close(): Promise<void> {
    const lock = this.#lock
    this.#lock = undefined
    while (this.#acts.size > 0) await Promise.allSettled(this.#acts)
    await lock?.release()
  }

  async names(): Promise<string[]> {
    return readdir(this.path)
  }

  async read(name: string): Promise<string> {
    return readFile(this.#file(name), 'utf8')
  }

  /** Writes a file; when this resolves it survives the machine, and when it rejects there is none. */
  async create(name: string, text: string): Promise<void> {
    const file = this.#file(name)
    const options = { mode: 0o600, sync: 'file' } as const
    await this.#track(async () => {
      await this.#inTurn(async () => writeFileAtomically(file, text, options))
      try {
        await this.#syncNames()
      } catch (error) {
        await rm(file, { force: true })
        throw error
      }
    })
  }

  /** Adds to a file. */
  async append(name: string, text: string, options: AppendOptions): Promise<void> {
    const { sync, create = false } = options
    const flags = constants.O_WRONLY | constants.O_APPEND | (create ? constants.O_CREAT : 0)
    await this.#act(async () => {
      const handle = await open(this.#file(name), flags, 0o600)
      try {
        await handle.writeFile(text)
        if (sync) await handle.datasync()
      } finally {
        await handle.close()
      }
    })
  }

  /** Leaves the first `bytes` bytes of a file. */
  async cut(name: string, bytes: number): Promise<void> {
    await this.#act(async () => truncate(this.#file(name), bytes))
  }

  async rename(name: string, newName: string): Promise<void> {
    await this.#act(async () => rename(this.#file(name), this.#file(newName)))
  }

  async remove(name: string): Promise<void> {
    await this.#act(async () => rm(this.#file(name), { force: true }))
  }

  async #act(act: () => Promise<void>): Promise<void> {
    await this.#track(async () => this.#inTurn(act))
  }

  async #inTurn(act: () => Promise<void>): Promise<void> {
    const release = await this.#slots.acquire(never)
    try {
      await act()
    } finally {
      release()
    }
  }

  /** Begins nothing when the folder was given away: somebody else may have it by then. */
  async #track(act: () => Promise<void>): Promise<void> {
    if (this.#lock === undefined) throw new Error('the outbox is closed')
    const acting = act()
    this.#acts.add(acting)
    try {
      await acting
    } finally {
      this.#acts.delete(acting)
    }
  }

  #file(name: string): string {
    return path.join(this.path, name)
  }
}

/**
 * Lets many callers share the runs of `task`: whoever comes while it runs waits for the next run,
 * together with all who came meanwhile.
 */
export function shareRuns(task: () => Promise<void>): () => Promise<void> {
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<void> | undefined
  const runNext = async (): Promise<void> => {
    await running
    running = (next ?? Promise.resolve()).catch(() => undefined)
    next = undefined
    await task()
  }
  return async () => (next ??= runNext())
}
