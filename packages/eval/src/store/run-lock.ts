import { hostname } from 'node:os'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { FolderLock, ownerOf, type LockOwner } from '@osmosis/protocol/files'

import { storageError } from './run-files.ts'

/**
 * Locks the run at `location`. The lock is outside of the run's folder, so that the folder can be renamed while it is
 * locked. The lock of a process that has exited is taken over: at once on this machine, elsewhere after 15 s.
 *
 * @throws OsmosisError with code `run_locked` when another process has the lock, `storage_error` when it
 * cannot be written
 */
export async function lockRun(location: string): Promise<FolderLock> {
  const folder = lockOf(location)
  try {
    return await FolderLock.acquire(folder, {
      isTemporary: true,
      inUse: (owner) => {
        const writes = owner === undefined ? 'has just taken' : 'writes to'
        const message = `${describeWriter(owner)} ${writes} the run ${location}. Wait until it has ended, or pass another --name.`
        return new OsmosisError('run_locked', message)
      },
      takenOver: (owner) => {
        const message = `${describeWriter(owner)} has taken over the run ${location}, because this process did not renew its lock ${folder} in time. This process ends and stores nothing more.`
        return new OsmosisError('run_locked', message)
      },
    })
  } catch (error) {
    throw await storageError(folder, error)
  }
}

/** The process that writes to the run; null when none does, which is seen 15 s after a kill on another host. */
export function writerOf(location: string): LockOwner | null {
  return ownerOf(lockOf(location)) ?? null
}

/** The folder of the locks of the runs in a folder, each with the name of its run. */
export function lockFolder(outputRoot: string): string {
  return path.join(outputRoot, '.locks')
}

function lockOf(location: string): string {
  return path.join(lockFolder(path.dirname(location)), path.basename(location))
}

function describeWriter(writer: LockOwner | undefined): string {
  if (writer === undefined) return 'Another process'
  const { pid, host, started_at } = writer
  return `Process ${pid}${host === hostname() ? '' : ` on host ${host}`}, started at ${started_at},`
}
