import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { findMetadataProblems, type DatasetRow } from '@osmosis/eval'

import { metadataCheckBy } from './metadata-channel.ts'
import { workingFolder } from '../command/surroundings.ts'

/** What the process that loads the entrypoint says first. */
export type LoadedMessage =
  | { readonly kind: 'workflow' | 'agent-loop'; readonly hasSchema: boolean }
  | { readonly kind: 'failed'; readonly message: string }

/** How rows fit what an entrypoint declares. */
export interface DatasetFit {
  /** A line for each row that does not, with its place. */
  readonly problems: readonly string[]
  /** What kept the rows from being checked; empty when they were. */
  readonly warnings: readonly string[]
}

const limitMs = 120_000

/**
 * Loads an entrypoint in a process of its own, and checks all rows by the metadata schema that its
 * workflow config declares.
 *
 * @throws OsmosisError with code `invalid_entrypoint` when it cannot be loaded
 */
export async function datasetFit(
  entrypoint: string,
  rows: readonly DatasetRow[],
  options: { readonly environment: NodeJS.ProcessEnv; readonly signal: AbortSignal },
): Promise<DatasetFit> {
  const child = startChild(entrypoint, options)
  try {
    const loaded = await firstMessage(child)
    if (loaded.kind === 'failed') throw new OsmosisError('invalid_entrypoint', loaded.message)
    if (loaded.hasSchema) {
      return { problems: await findMetadataProblems(rows, metadataCheckBy(child)), warnings: [] }
    }
    const why =
      loaded.kind === 'workflow'
        ? `its workflow config declares no metadata schema`
        : 'an agent loop declares no shape of its rows'
    return { problems: [], warnings: [`rows were not checked against ${entrypoint}: ${why}`] }
  } finally {
    child.kill('SIGKILL')
  }
}

function startChild(
  entrypoint: string,
  { environment, signal }: Parameters<typeof datasetFit>[2],
): ChildProcess {
  const source = path.join(import.meta.dirname, 'check-child.ts')
  const file = existsSync(source) ? source : source.replace(/ts$/, 'js')
  return spawn(process.execPath, [...process.execArgv, file, entrypoint], {
    cwd: workingFolder(),
    // The login is nothing that code of the workspace needs.
    env: { ...environment, OSMOSIS_TOKEN: undefined },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
    killSignal: 'SIGKILL',
  })
}

async function firstMessage(child: ChildProcess): Promise<LoadedMessage> {
  const message = once(child, 'message').then(([loaded]) => loaded as LoadedMessage)
  const closed = new Promise<LoadedMessage>((resolve) => {
    child.once('close', (code, end) => {
      const how = `its process ended with ${end ?? `code ${code}`} while it was loaded`
      resolve({ kind: 'failed', message: how })
    })
  })
  // `once` rejects for an error of the process, such as that it was given up.
  return Promise.race([message, closed])
}
