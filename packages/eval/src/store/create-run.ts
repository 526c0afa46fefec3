import { existsSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { syncFolder } from '@osmosis/runtime/files'

import type { RunManifest } from '../analysis/run-manifest.ts'
import { assertRunName } from '../files/run-name.ts'
import { readManifest, writeManifest } from './manifest-file.ts'
import { fileMode, folderMode, runFiles, segmentKinds } from './run-files.ts'
import { lockRun, type RunLock } from './run-lock.ts'
import { openStore, type RunStore } from './run-store.ts'

/** How a run is written to. */
export interface RunStoreOptions {
  /** Takes the run from a process that seems to write to it, such as one of another host. */
  readonly breakLock?: boolean
  /** The least time between two refreshes of the snapshots. Milliseconds. Default: 2000. */
  readonly snapshotIntervalMs?: number
}

/** Options of {@link createRun}. */
export interface CreateRunOptions extends RunStoreOptions {
  /** The folder of all runs; created if need be. See `defaultOutputRoot`. */
  readonly outputRoot: string
  /** Its `run_name` is the name of the folder. */
  readonly manifest: RunManifest
  /** Of {@link reserveRun}: it is the run's from now on. Default: the name is taken here. */
  readonly lock?: RunLock | undefined
}

/** Options of {@link resumeRun}. */
export interface ResumeRunOptions extends RunStoreOptions {
  /** The folder of the run. */
  readonly location: string
}

const defaultSnapshotIntervalMs = 2000

/**
 * Creates the folder of a run, for this process alone to write to. The caller closes it.
 *
 * @throws OsmosisError with code `invalid_config` for a bad name and when the folder exists or cannot
 * be made, `run_locked` when another process has the run, `storage_error` when it cannot be written
 */
export async function createRun(options: CreateRunOptions): Promise<RunStore> {
  const { outputRoot, manifest, breakLock, snapshotIntervalMs } = options
  assertRunName(manifest.run_name)
  const location = path.resolve(outputRoot, manifest.run_name)
  try {
    await mkdir(outputRoot, { recursive: true })
  } catch (cause) {
    throw notCreated(location, cause)
  }
  const lock = options.lock ?? (await lockRun(location, breakLock))
  try {
    if (existsSync(location)) {
      throw new OsmosisError(
        'invalid_config',
        `The run folder ${location} exists already, and results are not overwritten. Resume the run, or pass another --name or --output.`,
      )
    }
    await makeFolder(location, manifest)
    return await openStore({
      location,
      manifest,
      lock,
      snapshotIntervalMs: snapshotIntervalMs ?? defaultSnapshotIntervalMs,
    })
  } catch (error) {
    lock.release()
    throw error
  }
}

/**
 * Opens a run to continue with it, for this process alone to write to. What was cut short when an
 * earlier process was killed is removed: nobody was promised it. The caller closes it.
 *
 * @throws OsmosisError with code `run_locked` when another process has the run, `damaged_run` when
 * there is no run, or a line of the journal other than a torn last one is none
 */
export async function resumeRun(options: ResumeRunOptions): Promise<RunStore> {
  const location = path.resolve(options.location)
  // Before the lock, which would make a folder for the lock of what is no run.
  await readManifest(location)
  const lock = await lockRun(location, options.breakLock)
  try {
    const manifest = await readManifest(location)
    return await openStore({
      location,
      manifest,
      lock,
      snapshotIntervalMs: options.snapshotIntervalMs ?? defaultSnapshotIntervalMs,
    })
  } catch (error) {
    lock.release()
    throw error
  }
}

/**
 * Renames a run, so that another can have its name: to `<name>.1`, or the next number that is free.
 *
 * @returns the new folder
 * @throws OsmosisError with code `run_locked` when another process has the run, `invalid_config` when
 * the folder cannot be renamed
 */
export async function archiveRun({
  location,
  breakLock,
}: Pick<ResumeRunOptions, 'location' | 'breakLock'>): Promise<string> {
  const from = path.resolve(location)
  const lock = await lockRun(from, breakLock)
  try {
    let number = 1
    while (existsSync(`${from}.${number}`)) number += 1
    const to = `${from}.${number}`
    await rename(from, to)
    await syncFolder(path.dirname(to))
    return to
  } catch (cause) {
    throw new OsmosisError(
      'invalid_config',
      `Cannot rename the run folder ${from}: ${errorMessage(cause)}`,
      { cause },
    )
  } finally {
    lock.release()
  }
}

/** Under another name until it is whole: a folder with the name of a run is one. */
async function makeFolder(location: string, manifest: RunManifest): Promise<void> {
  const unfinished = path.join(path.dirname(location), `.${path.basename(location)}.tmp`)
  try {
    // The lock is ours: whoever left it behind is gone.
    await rm(unfinished, { recursive: true, force: true })
    await mkdir(unfinished, { mode: folderMode })
    for (const kind of segmentKinds) await mkdir(path.join(unfinished, kind), { mode: folderMode })
    await writeFile(runFiles(unfinished).journal, '', { mode: fileMode })
    // Makes all names in the folder durable, not only its own.
    await writeManifest(unfinished, manifest)
    await rename(unfinished, location)
    await syncFolder(path.dirname(location))
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    throw error instanceof OsmosisError ? error : notCreated(location, error)
  }
}

function notCreated(location: string, cause: unknown): OsmosisError {
  return new OsmosisError(
    'invalid_config',
    `Cannot create the run folder ${location}: ${errorMessage(cause)}`,
    { cause },
  )
}
