import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { findRowProblems, type DatasetRow } from '@osmosis/eval'

import { rowCheckBy } from './server-channel.ts'

/** What a process reports about the entrypoint that it has loaded. */
export type EntrypointReport =
  | {
      readonly kind: 'workflow'
      /** Parts that the module does not export: `grader`, `workflow config`, `grader config`. */
      readonly missing: readonly string[]
      readonly hasSchema: boolean
    }
  | {
      readonly kind: 'agent-loop'
      readonly name: string
      readonly toolCount: number
      /** Why the loop cannot serve rollouts; null when it can. */
      readonly problem: string | null
      readonly warnings: readonly string[]
    }
  | { readonly kind: 'failed'; readonly message: string; readonly isDependency: boolean }

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
  return withEntrypoint(entrypoint, options, async (report, child) => {
    if (report.kind === 'failed') throw new OsmosisError('invalid_entrypoint', report.message)
    if (report.kind === 'workflow' && report.hasSchema) {
      return { problems: await findRowProblems(rows, rowCheckBy(child)), warnings: [] }
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
  use: (report: EntrypointReport, child: ChildProcess) => Promise<T>,
): Promise<T> {
  const source = path.join(import.meta.dirname, 'entrypoint-child.ts')
  const file = existsSync(source) ? source : source.replace(/ts$/, 'js')
  const child = spawn(process.execPath, [...process.execArgv, file, spec], {
    cwd: folder,
    // Code of the workspace does not need the login.
    env: { ...environment, OSMOSIS_TOKEN: undefined },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
    killSignal: 'SIGKILL',
  })
  try {
    return await use(await firstReport(child, signal), child)
  } finally {
    child.kill('SIGKILL')
  }
}

async function firstReport(child: ChildProcess, signal: AbortSignal): Promise<EntrypointReport> {
  return new Promise((resolve, reject) => {
    const fail = (message: string): void =>
      resolve({ kind: 'failed', message, isDependency: false })
    child.once('message', (report) => resolve(report as EntrypointReport))
    child.on('error', (error) => {
      if (signal.aborted) reject(signal.reason as Error)
      else fail(error.message)
    })
    child.once('close', (code, killedBy) =>
      fail(`its process ended with ${killedBy ?? `code ${code}`} while it was loaded`),
    )
  })
}
