import { existsSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError, isOsmosisError } from '@osmosis/core'
import type { FolderLock } from '@osmosis/protocol/files'

import { parseRolloutName } from '../analysis/records/item-event.ts'
import { lockFolder, lockRun } from './run-lock.ts'

const ownFolder = '.osmosis'

/** The default folder of the evaluations of a workspace: `.osmosis/evals`. */
export function defaultOutputRoot(workspaceRoot: string): string {
  return path.join(workspaceRoot, ownFolder, 'evals')
}

/**
 * Creates a folder for runs or trainings. A `.osmosis` that it is in gets a `.gitignore`, so that no transcript lands in
 * git.
 *
 * @throws the error of the file system
 */
export async function createOutputFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  const parts = path.resolve(folder).split(path.sep)
  const at = parts.lastIndexOf(ownFolder)
  if (at === -1) return
  const file = path.join(parts.slice(0, at + 1).join(path.sep), '.gitignore')
  await writeFile(file, '*\n', { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

const maxNameLength = 96
/** Commands with the names of two runs fit on one line. */
const maxStemLength = 24

/**
 * Checks the name of a run, which becomes the name of its folder.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function assertRunName(name: string): void {
  if (isReserved(name)) {
    throw new OsmosisError(
      'invalid_config',
      `A run cannot be named '${name}': in commands that means ${name === 'latest' ? 'the newest run' : 'a rollout'}. Add a prefix, such as 'run-${name}'.`,
    )
  }
  if (/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name) && name.length <= maxNameLength) return
  throw new OsmosisError(
    'invalid_config',
    `A run name has up to ${maxNameLength} letters, digits, '.', '_' and '-' and starts with a letter or digit, got '${name}'.`,
  )
}

/** Whether the name has another meaning in commands: the newest run, or a rollout such as `12.1`. */
function isReserved(name: string): boolean {
  return name === 'latest' || parseRolloutName(name) !== undefined
}

/**
 * Generates a run name: the name of the config's file, and the next number after the highest in use.
 *
 * @param taken - names in use
 */
export function generateRunName(configFile: string, taken: Iterable<string>): string {
  const stem = path
    .basename(configFile, path.extname(configFile))
    .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    .slice(0, maxStemLength)
    .replaceAll(/^[^A-Za-z0-9]+|-+$/g, '')
  const start = `${stem || 'eval'}-`
  // Some file systems take names that differ in case for one.
  const numbers = Array.from(taken, (name) =>
    name.toLowerCase().startsWith(start.toLowerCase())
      ? /^(\d+)(?:\.\d+)?$/.exec(name.slice(start.length))?.[1]
      : undefined,
  )
  return `${start}${Math.max(0, ...numbers.map(Number).filter(Number.isSafeInteger)) + 1}`
}

/** A name that is reserved for one run. */
export interface ReservedRun {
  readonly name: string
  /** Reserves the name until it is released, or passed to `createRun`. */
  readonly lock: FolderLock
}

/** The names of runs in a folder, including reserved names; none when the folder is missing. */
export async function takenRunNames(outputRoot: string): Promise<string[]> {
  return [...(await namesIn(outputRoot)), ...(await namesIn(lockFolder(outputRoot)))]
}

/**
 * Generates a name for a run and reserves it: another command may start a run concurrently.
 *
 * @param source - the config or other file after which the run is named
 * @throws OsmosisError with code `storage_error` when the folder cannot be written
 */
export async function reserveRun(outputRoot: string, source: string): Promise<ReservedRun> {
  await createOutputFolder(outputRoot)
  for (;;) {
    const name = generateRunName(source, await takenRunNames(outputRoot))
    const location = path.resolve(outputRoot, name)
    try {
      const lock = await lockRun(location)
      if (!existsSync(location)) return { name, lock }
      await lock.release()
    } catch (error) {
      if (!isOsmosisError(error) || error.code !== 'run_locked') throw error
    }
  }
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => [])
}
