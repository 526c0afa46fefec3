import { mkdir, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { writeFileAtomically } from '@osmosis/core/files'

import type { EvaluationSnapshot } from '../run/evaluation-result.ts'
import type { EvaluationSink } from '../run/evaluation-options.ts'
import { toIndexText, toMetricsText } from './result-documents.ts'
import { assertRunName } from './run-name.ts'

/** Where a workspace keeps its evaluations unless told otherwise: `.osmosis/evals`. */
export function defaultOutputRoot(workspaceRoot: string): string {
  return join(workspaceRoot, '.osmosis', 'evals')
}

/** Options of {@link createRunFolder}. */
export interface RunFolderOptions {
  /** Created if need be. See `defaultOutputRoot`. */
  readonly outputRoot: string
  /** See `assertRunName`. */
  readonly runName: string
  /** The least time between two refreshes during the run. Milliseconds. Default: 2000. */
  readonly refreshIntervalMs?: number
}

/** The folder of one run, which keeps `index.jsonl` and `metrics.json` up to date. */
export interface RunFolder extends EvaluationSink {
  /** The folder; absolute. */
  readonly location: string
  readonly indexFile: string
  readonly metricsFile: string
  /** Removes the folder, for an evaluation that has never begun. */
  discard(): Promise<void>
}

/**
 * Creates the folder `<outputRoot>/<runName>`. As the sink of an evaluation it writes the files
 * atomically at the end, and now and then while it runs.
 *
 * @throws OsmosisError with code `invalid_config` for a bad run name, and when the folder exists:
 * results are never overwritten
 */
export async function createRunFolder(options: RunFolderOptions): Promise<RunFolder> {
  assertRunName(options.runName)
  const location = resolve(options.outputRoot, options.runName)
  let isRootMade = false
  try {
    await mkdir(options.outputRoot, { recursive: true })
    isRootMade = true
    await mkdir(location)
  } catch (cause) {
    const exists = isRootMade && (cause as NodeJS.ErrnoException).code === 'EEXIST'
    throw new OsmosisError(
      'invalid_config',
      exists
        ? `The run folder ${location} exists already, and results are not overwritten. Pass another --name or --output.`
        : `Cannot create the run folder ${location}: ${errorMessage(cause)}`,
      { cause },
    )
  }
  const indexFile = join(location, 'index.jsonl')
  const metricsFile = join(location, 'metrics.json')

  async function write(snapshot: EvaluationSnapshot): Promise<void> {
    await writeFileAtomically(indexFile, toIndexText(snapshot))
    await writeFileAtomically(metricsFile, toMetricsText(snapshot))
  }

  const interval = options.refreshIntervalMs ?? 2000
  let nextRefreshAt = 0
  let refreshing = false
  return {
    location,
    indexFile,
    metricsFile,
    async record(_record, snapshot) {
      if (refreshing || performance.now() < nextRefreshAt) return
      refreshing = true
      const startedAt = performance.now()
      try {
        await write(snapshot())
      } finally {
        refreshing = false
        const now = performance.now()
        // A refresh writes every record again; it may take a twentieth of the time, not more.
        nextRefreshAt = now + Math.max(interval, 20 * (now - startedAt))
      }
    },
    finish: write,
    discard: () => rm(location, { recursive: true, force: true }),
  }
}
