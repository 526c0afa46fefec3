import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError } from '@osmosis/core'

import type { RunManifest } from '../analysis/records/run-manifest.ts'
import { readManifest } from './manifest-file.ts'

/** A folder in the output root. */
export type ListedRun = {
  /** The name of the folder. */
  readonly name: string
  /** The folder; absolute. */
  readonly location: string
} & (
  | { readonly manifest: RunManifest; readonly problem: null }
  /** `problem`: why it cannot be opened. */
  | { readonly manifest: null; readonly problem: string }
)

/** The runs in a folder, the newest first, then folders that are not runs; empty when the folder is missing. */
export async function listRuns(outputRoot: string): Promise<ListedRun[]> {
  const entries = await readdir(outputRoot, { withFileTypes: true }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  })
  // The folder of locks, and folders that are being created, begin with a dot.
  const folders = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
  const runs: ListedRun[] = []
  for (const name of folders.map((folder) => folder.name).toSorted()) {
    runs.push(await listed(name, path.resolve(outputRoot, name)))
  }
  const startOf = ({ manifest }: ListedRun): string => manifest?.created_at ?? ''
  return runs.toSorted((a, b) => compare(startOf(b), startOf(a)))
}

async function listed(name: string, location: string): Promise<ListedRun> {
  try {
    return { name, location, manifest: await readManifest(location), problem: null }
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    return { name, location, manifest: null, problem: errorMessage(error) }
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
