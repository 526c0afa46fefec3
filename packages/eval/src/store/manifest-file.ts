import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'

import { errorMessage } from '@osmosis/core'
import { writeFileAtomically } from '@osmosis/protocol/files'

import type { RunInputs, RunManifest, RunRow } from '../analysis/records/run-manifest.ts'
import { damagedRun, fileMode, runFiles, storageError } from './run-files.ts'

/** A group of a run's inputs. */
export type InputGroup = keyof RunInputs

const groups: readonly InputGroup[] = [
  'model',
  'dataset',
  'code',
  'workflow',
  'env',
  'secrets',
  'timeouts',
]

/** The groups in which `inputs` differ from those of the run, in a fixed order; empty when it may resume. */
export function changedInputs(manifest: RunManifest, inputs: RunInputs): InputGroup[] {
  // As the manifest would store them: JSON omits undefined fields.
  const stored = JSON.parse(JSON.stringify(inputs)) as RunInputs
  return groups.filter((group) => !isDeepStrictEqual(manifest.inputs[group], stored[group]))
}

/** Changes that a run allows after it has started. Omitted fields stay as they are. */
export interface RunGrowth {
  /** The requested rows; those that the run lacks are appended. */
  readonly rows?: readonly RunRow[]
  /** Attempts per row and model; a smaller number than the run's is ignored. */
  readonly n?: number
  readonly pass_threshold?: number
}

/** Returns the same object when nothing changes. */
export function grown(manifest: RunManifest, growth: RunGrowth): RunManifest {
  const own = new Set(manifest.rows.map(({ source_row: row }) => row))
  const added = growth.rows?.filter(({ source_row: row }) => !own.has(row)) ?? []
  const n = Math.max(manifest.n, growth.n ?? 0)
  const threshold = growth.pass_threshold ?? manifest.pass_threshold
  if (added.length === 0 && n === manifest.n && threshold === manifest.pass_threshold) {
    return manifest
  }
  return { ...manifest, n, pass_threshold: threshold, rows: [...manifest.rows, ...added] }
}

/** @throws OsmosisError with code `damaged_run` */
export async function readManifest(location: string): Promise<RunManifest> {
  const file = runFiles(location).manifest
  let manifest: Partial<Record<keyof RunManifest, unknown>> | null
  try {
    manifest = JSON.parse(await readFile(file, 'utf8')) as typeof manifest
  } catch (cause) {
    throw damagedRun(`Cannot read the manifest ${file}: ${errorMessage(cause)}.`, cause)
  }
  if (manifest?.schema_version !== 1) {
    const version = JSON.stringify(manifest?.schema_version) ?? 'none'
    throw damagedRun(
      `${file} is a manifest of schema version ${version}, expected 1. Another version of @osmosis/eval may have written it.`,
    )
  }
  if (typeof manifest.inputs !== 'object' || !Array.isArray(manifest.rows)) {
    throw damagedRun(`${file} is not the manifest of a run: inputs or rows are missing.`)
  }
  return manifest as RunManifest
}

/** @throws OsmosisError with code `storage_error` */
export async function writeManifest(location: string, manifest: RunManifest): Promise<void> {
  const file = runFiles(location).manifest
  try {
    await writeFileAtomically(file, `${JSON.stringify(manifest)}\n`, { mode: fileMode })
  } catch (cause) {
    throw await storageError(file, cause)
  }
}
