import { errorMessage } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import { findRowProblems, type DatasetRow, type RowCheck } from '@osmosis/eval'
import { moduleIn } from '@osmosis/server/child'

import { invalidEntrypoint } from '../command/wrong-use.ts'
import type { EntrypointReport } from './inspected-entrypoint.ts'
import { runUserCode } from './user-code.ts'

/** The process that loads an entrypoint. */
export interface EntrypointProcessOptions {
  /** Working folder of the process. */
  readonly folder: string
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
}

const limitMs = 120_000

/**
 * Loads an entrypoint in a separate process, and resolves with what that reports.
 *
 * @param spec - may name an export, as in `main.ts:agentLoop`
 */
export async function inspectEntrypoint(
  spec: string,
  options: EntrypointProcessOptions,
): Promise<EntrypointReport> {
  return withEntrypoint(spec, options, async (report) => report)
}

/** How rows fit the schema that an entrypoint declares. */
export interface DatasetFit {
  /** A line for each row that does not fit, with its place. */
  readonly problems: readonly string[]
  /** Why the rows were not checked; empty when they were. */
  readonly warnings: readonly string[]
}

/**
 * Loads an entrypoint in a separate process, and checks all rows by the schemas that its
 * workflow config declares.
 *
 * @throws OsmosisError with code `invalid_entrypoint` when it cannot be loaded
 */
export async function datasetFit(
  entrypoint: string,
  rows: readonly DatasetRow[],
  options: EntrypointProcessOptions,
): Promise<DatasetFit> {
  return withEntrypoint(entrypoint, options, async (report, check) => {
    if (report.kind === 'failed') throw invalidEntrypoint(report.message)
    if (report.kind === 'workflow' && report.hasSchema) {
      return { problems: await findRowProblems(rows, check), warnings: [] }
    }
    const why =
      report.kind === 'workflow'
        ? 'its configs declare no schema of metadata or labels'
        : 'an agent loop declares no schema for its rows'
    return { problems: [], warnings: [`rows were not checked against ${entrypoint}: ${why}`] }
  })
}

/** Importing an entrypoint may do anything, and may never end: its process is killed after `use`. */
async function withEntrypoint<T>(
  spec: string,
  { folder, environment, signal }: EntrypointProcessOptions,
  use: (report: EntrypointReport, check: RowCheck) => Promise<T>,
): Promise<T> {
  const child = runUserCode({
    module: moduleIn(import.meta.dirname, 'entrypoint-child'),
    loader: async () => (await import('./inspected-entrypoint.ts')).loadForInspection,
    order: spec,
    name: 'its process',
    cwd: folder,
    // Code of the workspace does not need the login.
    env: { ...environment, OSMOSIS_TOKEN: undefined },
    isSilent: true,
  })
  const late = new AbortController()
  const timer = setTimeout(() => {
    const message = `${spec} was not loaded, or did not check the rows, within ${limitMs / 1000} s: what its module and its schemas do must end.`
    late.abort(invalidEntrypoint(message))
  }, limitMs)
  const limited = AbortSignal.any([signal, late.signal])
  try {
    const report = await untilAborted(limited, () => child.ready).then(
      ({ facts }) => facts as EntrypointReport,
      (error: unknown): EntrypointReport => {
        signal.throwIfAborted()
        return { kind: 'failed', message: errorMessage(error), code: null, isDependency: false }
      },
    )
    const check = async (rows: unknown): Promise<unknown> =>
      untilAborted(limited, () => child.ask(rows))
    return await use(report, check as RowCheck)
  } finally {
    clearTimeout(timer)
    child.kill()
  }
}
