import { existsSync } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import path from 'node:path'

import { isOsmosisError } from '@osmosis/core'

import { generateRunName } from '../files/run-name.ts'
import { lockFolder, lockName, lockRun, type RunLock } from './run-lock.ts'

/** A name that no other run has or gets. */
export interface ReservedRun {
  readonly name: string
  /** Holds the name until the run is made, which takes it over, or until it is released. */
  readonly lock: RunLock
}

/** The names of runs in a folder, and of those that are about to begin; none when there is no such folder. */
export async function takenRunNames(outputRoot: string): Promise<string[]> {
  const locks = await namesIn(lockFolder(outputRoot))
  return [...(await namesIn(outputRoot)), ...locks.map(lockName)]
}

/**
 * Makes up a name for a run and keeps it from others: another command may begin one at the same moment.
 *
 * @param source - the config or other file that it is named after
 * @throws OsmosisError with code `storage_error` when nothing can be written there
 */
export async function reserveRun(outputRoot: string, source: string): Promise<ReservedRun> {
  await mkdir(outputRoot, { recursive: true })
  for (;;) {
    const name = generateRunName(source, await takenRunNames(outputRoot))
    const location = path.resolve(outputRoot, name)
    try {
      const lock = await lockRun(location)
      if (!existsSync(location)) return { name, lock }
      lock.release()
    } catch (error) {
      if (!isOsmosisError(error) || error.code !== 'run_locked') throw error
    }
  }
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => [])
}
