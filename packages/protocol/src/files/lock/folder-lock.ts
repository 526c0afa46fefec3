import { mkdirSync, realpathSync, statSync } from 'node:fs'
import path from 'node:path'

import {
  defaultDeadAfterMs,
  FolderLease,
  type FolderLeaseOptions,
  type LockOwner,
} from './folder-lease.ts'
import { ownerFile, ownerNumbers, readOwner } from './owner-files.ts'
import { isRunning, lockName, ownNamespace, type ProcessLock } from './process-lock.ts'

export type { LockOwner } from './folder-lease.ts'

/** Options of {@link FolderLock}. */
export interface FolderLockOptions extends Omit<FolderLeaseOptions, 'namespace'> {
  /** Identifies the local sockets that this process can see; default: from the system. */
  readonly namespace?: string | undefined
}

/**
 * A folder that only one process may use; the others may be on this machine, in other containers or on other hosts. It
 * is two locks in one: a name that processes of this machine see ({@link lockName}), which tells at once whether its owner is alive,
 * also when that is stopped; and a lease in the folder itself ({@link FolderLease}), which all see who see the folder.
 */
export class FolderLock {
  readonly #socket: ProcessLock
  readonly #lease: FolderLease
  #released: Promise<void> | undefined

  private constructor(socket: ProcessLock, lease: FolderLease) {
    this.#socket = socket
    this.#lease = lease
  }

  /**
   * Locks a folder, which exists unless it is temporary.
   *
   * @throws `inUse` when another process has the lock; the error of the file system
   */
  static async acquire(givenPath: string, options: FolderLockOptions): Promise<FolderLock> {
    const { isTemporary = false, namespace, inUse } = options
    const stable = isTemporary ? path.dirname(givenPath) : givenPath
    if (isTemporary) mkdirSync(stable, { recursive: true, mode: 0o700 })
    const place = realpathSync(stable)
    const folder = isTemporary ? path.join(place, path.basename(givenPath)) : place
    // Containers can share a network and have different folders of the same path.
    const { dev, ino } = statSync(place, { bigint: true })
    const name = `${namespace === undefined ? '' : `${namespace} `}${folder} ${dev}:${ino}`
    const socket = await lockName(name, () => inUse(ownerOf(folder)))
    try {
      const lease = await FolderLease.take(folder, socket.name, {
        ...options,
        namespace: namespace ?? ownNamespace(),
      })
      return new FolderLock(socket, lease)
    } catch (error) {
      await socket.release()
      throw error
    }
  }

  /** Whether another process is known to have taken over the folder. */
  get isLost(): boolean {
    return this.#lease.isLost
  }

  /**
   * Call it before what is locked is changed, and before its content is shown.
   *
   * @throws `takenOver` when another process has taken over the folder, or a temporary one was removed; the error of the
   * file system when the disk still accepts no file that names this process as the owner
   */
  assertHeld(): void {
    this.#lease.assertHeld()
  }

  async release(): Promise<void> {
    this.#released ??= (async () => {
      await this.#lease.release()
      await this.#socket.release()
    })()
    return this.#released
  }
}

/**
 * The process that has the lock of a folder; undefined when none does. It is late by up to 15 s for a process that was
 * killed on another host, or in a container with a network of its own.
 */
export function ownerOf(folder: string): LockOwner | undefined {
  try {
    const [last] = ownerNumbers(folder)
    const found = last === undefined ? undefined : readOwner(ownerFile(folder, last))
    if (found?.owner === undefined || found.owner.state === 'free') return undefined
    const hasHeartbeat = Date.now() - found.modifiedMs < defaultDeadAfterMs
    if (!(isRunning(found.owner, ownNamespace()) ?? hasHeartbeat)) return undefined
    const { pid, host, started_at } = found.owner
    return { pid, host, started_at }
  } catch {
    // It belongs to another user.
    return undefined
  }
}
