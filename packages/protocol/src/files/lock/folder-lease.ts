import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, rmdirSync, rmSync } from 'node:fs'
import { utimes } from 'node:fs/promises'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

import type { OsmosisError } from '@osmosis/core'

import {
  overwrite,
  type Owner,
  ownerFile,
  ownerNumbers,
  type OwnerState,
  readOwner,
  readText,
} from './owner-files.ts'
import { isRunning } from './process-lock.ts'

/** A process that has the lock of a folder. */
export interface LockOwner {
  readonly pid: number
  readonly host: string
  /** When the process started. ISO 8601, UTC. */
  readonly started_at: string
}

/** Options of {@link FolderLease}. */
export interface FolderLeaseOptions {
  /** The error when another process has the lock; the owner is undefined when it has not said who it is. */
  readonly inUse: (owner: LockOwner | undefined) => OsmosisError
  /** The error of this process when another one has taken over the folder, because the heartbeat was overdue. */
  readonly takenOver: (owner: LockOwner | undefined) => OsmosisError
  /**
   * The folder has nothing but the lock: it is created here, and removed when the lock is released. Its disk must accept
   * writes. Default: false
   */
  readonly isTemporary?: boolean | undefined
  /** How often the owner of a folder renews its file. Milliseconds; default 3 s. */
  readonly heartbeatMs?: number | undefined
  /** After this time without a heartbeat an owner is considered dead. Milliseconds; default 15 s. */
  readonly deadAfterMs?: number | undefined
  /** Identifies the local sockets that this process can see; null: unknown. */
  readonly namespace: string | null
  /** Called before the wait for an owner that may be dead. */
  readonly onWaiting?: ((owner: LockOwner | undefined, deadAfterMs: number) => void) | undefined
  /** Called once, when another process has taken over the folder. */
  readonly onLost?: ((error: OsmosisError) => void) | undefined
}

export const defaultDeadAfterMs = 15_000

/** What a disk without space, inodes or quota says, and one that is read-only. */
const fullDisk: ReadonlySet<string> = new Set(['EROFS', 'ENOSPC', 'EDQUOT'])

/**
 * A lease of a folder, for all who see the folder. The file `owner-<n>.lock` with the highest number names the owner, which renews the
 * file's time. A process takes over the folder by creating the file with the next number, which only one process can do, unless it
 * finds one that it did not know. It then removes the earlier files, so an owner that was wrongly considered dead notices
 * the loss. The last file remains as long as the folder, so no number is used twice.
 */
export class FolderLease {
  readonly #folder: string
  /** The name that this process has locked on its machine: owner files name it. */
  readonly #socket: string
  readonly #options: FolderLeaseOptions
  /** Of the file that names this process as the owner. */
  #number = 1
  /** Of the files whose owners have released the folder or are dead. */
  #earlier: readonly number[] = []
  /** Undefined on a disk that accepts no new file: the folder can be read then, and nobody holds it for writing. */
  #file: { readonly path: string; readonly text: string } | undefined
  #timer: NodeJS.Timeout | undefined
  #beating: Promise<void> | undefined
  #lost: OsmosisError | undefined
  #isReleased = false

  private constructor(folder: string, socket: string, options: FolderLeaseOptions) {
    this.#folder = folder
    this.#socket = socket
    this.#options = options
  }

  /**
   * Takes over a folder when its owners have released it or are dead.
   *
   * @param socket - the name that this process has locked on its machine
   * @throws `inUse` when another process holds it; the error of the file system
   */
  static async take(
    folder: string,
    socket: string,
    options: FolderLeaseOptions,
  ): Promise<FolderLease> {
    const lease = new FolderLease(folder, socket, options)
    await lease.#takeOver()
    lease.#scheduleHeartbeat()
    return lease
  }

  /** Whether another process is known to have taken over the folder. */
  get isLost(): boolean {
    try {
      this.assertHeld()
    } catch {
      // Also when the disk cannot be read.
    }
    return this.#lost !== undefined
  }

  /** See `FolderLock.assertHeld`. */
  assertHeld(): void {
    if (this.#lost !== undefined) throw this.#lost
    if (this.#isReleased) return
    // Opens the file each time: on a network disk, its attributes may be outdated without that.
    if (this.#file && readText(this.#file.path) === this.#file.text) return
    // Writes to a removed folder fail anyway.
    if (!this.#options.isTemporary && !existsSync(this.#folder)) return
    const [last = 0] = ownerNumbers(this.#folder)
    // The disk may accept writes again; or the folder was removed and created again, and belongs to the first
    // process that creates a file.
    const isFree = this.#file === undefined ? last < this.#number : last === 0
    if (!this.#options.isTemporary && isFree && this.#createOwnerFile()) return
    this.#lost = this.#options.takenOver(readOwner(ownerFile(this.#folder, last))?.owner)
    this.#options.onLost?.(this.#lost)
    throw this.#lost
  }

  /** Leaves the folder to others. It never rejects: a file that cannot be written shows no heartbeat any more. */
  async release(): Promise<void> {
    this.#isReleased = true
    clearTimeout(this.#timer)
    await this.#beating
    try {
      if (this.#file !== undefined && readText(this.#file.path) === this.#file.text) {
        if (this.#options.isTemporary) {
          rmSync(this.#file.path)
          // Fails when another process has created its file meanwhile.
          rmdirSync(this.#folder)
        } else overwrite(this.#file.path, this.#file.text.replace('"held"', '"free"'))
      }
    } catch {
      // The heartbeat will be overdue.
    }
  }

  async #takeOver(): Promise<void> {
    const { isTemporary } = this.#options
    for (;;) {
      if (isTemporary) mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
      this.#earlier = ownerNumbers(this.#folder)
      for (const number of this.#earlier) {
        await this.#waitForDeath(ownerFile(this.#folder, number))
      }
      // Not one that was in use before the folder was removed.
      this.#number = (this.#earlier[0] ?? (isTemporary ? Date.now() : 0)) + 1
      try {
        if (this.#createOwnerFile()) return
      } catch (error) {
        // Pending results can be delivered without writing.
        if (isTemporary || !fullDisk.has((error as NodeJS.ErrnoException).code ?? '')) throw error
        return
      }
    }
  }

  /**
   * Resolves when the owner in a file has released the folder, or is dead.
   *
   * @throws `inUse` when it is alive
   */
  async #waitForDeath(file: string): Promise<void> {
    const { deadAfterMs = defaultDeadAfterMs, onWaiting, inUse } = this.#options
    const first = readOwner(file)
    if (first === undefined || this.#hasLeft(first)) return
    onWaiting?.(first.owner, deadAfterMs)
    const started = performance.now()
    for (;;) {
      await sleep(Math.min(deadAfterMs / 30, 500))
      const current = readOwner(file)
      if (current === undefined || this.#hasLeft(current)) return
      if (current.heartbeat !== first.heartbeat) throw inUse(current.owner)
      if (performance.now() - started >= deadAfterMs) return
    }
  }

  /**
   * Whether an owner has released the folder, or is dead; false when only its heartbeat shows whether it is.
   *
   * @throws `inUse` when it is alive
   */
  #hasLeft({ owner }: OwnerState): boolean {
    if (owner === undefined) return false
    if (owner.state === 'free') return true
    const isAlive = isRunning(owner, this.#options.namespace, this.#socket)
    if (isAlive === true) throw this.#options.inUse(owner)
    return isAlive === false
  }

  /**
   * Creates the file with its number; false when another process was faster.
   *
   * @throws the error of the file system
   */
  #createOwnerFile(): boolean {
    const { isTemporary, namespace } = this.#options
    const file = ownerFile(this.#folder, this.#number)
    const owner: Owner = {
      state: 'held',
      id: randomUUID(),
      host: hostname(),
      pid: process.pid,
      started_at: new Date(Date.now() - process.uptime() * 1000).toISOString(),
      namespace,
      socket: this.#socket,
    }
    try {
      closeSync(openSync(file, 'wx', 0o600))
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // Its owner may have removed the folder.
      if (code === 'EEXIST' || (isTemporary && code === 'ENOENT')) return false
      throw error
    }
    try {
      overwrite(file, `${JSON.stringify(owner)}\n`)
    } catch (error) {
      if (isTemporary) {
        rmSync(file, { force: true })
        throw error
      }
      // A full disk contains only a part of it: that the file exists is sufficient.
    }
    const others = ownerNumbers(this.#folder).filter((number) => number !== this.#number)
    if (others.some((number) => !this.#earlier.includes(number))) {
      rmSync(file, { force: true })
      return false
    }
    this.#file = { path: file, text: readText(file) ?? '' }
    for (const number of others) rmSync(ownerFile(this.#folder, number), { force: true })
    return true
  }

  #scheduleHeartbeat(): void {
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
    }, this.#options.heartbeatMs ?? 3000).unref()
  }

  async #beat(): Promise<void> {
    try {
      this.assertHeld()
      const now = new Date()
      if (this.#file !== undefined) await utimes(this.#file.path, now, now)
    } catch {
      // The next write reports the error.
    }
    if (this.#lost === undefined && !this.#isReleased) this.#scheduleHeartbeat()
  }
}
