import { existsSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { syncFolder, type FolderLock } from '@osmosis/protocol/files'

import type { RunManifest } from '../../analysis/records/run-manifest.ts'
import { readManifest, writeManifest } from '../manifest-file.ts'
import { fileMode, folderMode, runFiles, segmentKinds } from '../run-files.ts'
import { lockRun } from '../run-lock.ts'
import { createOutputFolder, assertRunName } from '../run-name.ts'
import { openStore, type RunStore } from './run-store.ts'

/** Options for writing to a run. */
export interface RunStoreOptions {
  /** The least time between two refreshes of the snapshots. Milliseconds. Default: 2000. */
  readonly snapshotIntervalMs?: number
}

/** Options of {@link createRun}. */
export interface CreateRunOptions extends RunStoreOptions {
  /** The folder of all runs; created if missing. See `defaultOutputRoot`. */
  readonly outputRoot: string
  /** Its `run_name` is the name of the folder. */
  readonly manifest: RunManifest
  /** Of {@link reserveRun}; the run takes ownership. Default: the name is locked here. */
  readonly lock?: FolderLock | undefined
}

/** Options of {@link resumeRun}. */
export interface ResumeRunOptions extends RunStoreOptions {
  /** The folder of the run. */
  readonly location: string
}

const defaultSnapshotIntervalMs = 2000

/**
 * Creates the folder of a run and locks it for this process. The caller closes it.
 *
 * @throws OsmosisError with code `invalid_config` for a bad name and when the folder exists or cannot
 * be created, `run_locked` when another process has the lock, `storage_error` when it cannot be written
 */
export async function createRun(options: CreateRunOptions): Promise<RunStore> {
  const { outputRoot, manifest, snapshotIntervalMs } = options
  const location = path.resolve(outputRoot, manifest.run_name)
  try {
    assertRunName(manifest.run_name)
    await createOutputFolder(outputRoot)
  } catch (cause) {
    await options.lock?.release()
    throw isOsmosisError(cause) ? cause : notCreated(location, cause)
  }
  const lock = options.lock ?? (await lockRun(location))
  try {
    if (existsSync(location)) {
      throw new OsmosisError(
        'invalid_config',
        `The run folder ${location} already exists, and results are not overwritten. Resume the run, or pass another --name or --output.`,
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
    await lock.release()
    throw error
  }
}

/**
 * Opens a run to continue it, and locks it for this process. Data that an earlier process wrote without
 * acknowledging it is removed. The caller closes it.
 *
 * @throws OsmosisError with code `run_locked` when another process has the lock, `damaged_run` when there
 * is no run, or its journal has a damaged line other than a truncated last one
 */
export async function resumeRun(options: ResumeRunOptions): Promise<RunStore> {
  const location = path.resolve(options.location)
  // Before the lock, which would create a folder for locks where there is no run.
  await readManifest(location)
  const lock = await lockRun(location)
  try {
    const manifest = await readManifest(location)
    return await openStore({
      location,
      manifest,
      lock,
      snapshotIntervalMs: options.snapshotIntervalMs ?? defaultSnapshotIntervalMs,
    })
  } catch (error) {
    await lock.release()
    throw error
  }
}

/**
 * Renames a run to `<name>.1`, or the next free number, so that its name becomes free.
 *
 * @returns the new folder
 * @throws OsmosisError with code `run_locked` when another process has the lock, `invalid_config` when
 * the folder cannot be renamed
 */
export async function archiveRun(location: string): Promise<string> {
  const from = path.resolve(location)
  const lock = await lockRun(from)
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
    await lock.release()
  }
}

/** Creates the folder under a temporary name, so that a folder with the name of a run is complete. */
async function makeFolder(location: string, manifest: RunManifest): Promise<void> {
  const unfinished = path.join(path.dirname(location), `.${path.basename(location)}.tmp`)
  try {
    // This process has the lock, so the process that left it behind has exited.
    await rm(unfinished, { recursive: true, force: true })
    await mkdir(unfinished, { mode: folderMode })
    for (const kind of segmentKinds) await mkdir(path.join(unfinished, kind), { mode: folderMode })
    await writeFile(runFiles(unfinished).journal, '', { mode: fileMode })
    // This makes all names in the folder durable, not only its own.
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
