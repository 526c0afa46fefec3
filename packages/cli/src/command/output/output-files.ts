import { access, constants, mkdir, open, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'

import { resolvePath, displayPath } from '../command-context.ts'
import { invalid } from '../wrong-use.ts'
import { withCommand } from './shown-command.ts'

/** The flag that names a file, and a name for the example in its messages. */
interface OutputFlag {
  readonly flag: string
  readonly name: string
}

/**
 * Creates the folder and the file for results, so that a problem with them is reported before the work
 * and not after it. An existing file keeps its content until the results are written.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export async function assertOutputFile(
  file: string | undefined,
  { flag, name }: OutputFlag = { flag: '--output', name: 'results.json' },
): Promise<void> {
  if (file === undefined) return
  // An unset shell variable leaves an empty name.
  if (file === '') throw invalid(`${flag} must name a file, e.g. ${name}; it is empty.`)
  const there = await stat(displayPath(file)).catch(() => undefined)
  if (there?.isDirectory() || file.endsWith('/')) {
    throw invalid(`${flag} must name a file, e.g. ${path.join(file, name)}; ${file} is a folder.`)
  }
  // The reader of a pipe would take the first close for the end of the output.
  if (there?.isFile() === false) return
  await orUnwritable(file, flag, async () => {
    await mkdir(path.dirname(resolvePath(file)), { recursive: true })
    await (await open(displayPath(file), 'a')).close()
  })
}

/**
 * Writes results as JSON.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export async function writeOutput(file: string, document: object): Promise<void> {
  await orUnwritable(file, '--output', () =>
    writeFile(displayPath(file), `${JSON.stringify(document, null, 2)}\n`),
  )
}

/**
 * Creates the folder for traces. A failure to write a trace does not fail its rollout, so the folder is
 * checked first.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export async function assertLogFolder(folder: string | undefined): Promise<void> {
  if (folder === undefined) return
  // An unset shell variable leaves an empty name.
  if (folder === '') {
    throw invalid('--log must name a folder, e.g. traces; it is empty.')
  }
  try {
    await mkdir(displayPath(folder), { recursive: true })
    await access(displayPath(folder), constants.W_OK | constants.X_OK)
  } catch (error) {
    throw invalid(`--log cannot be written to ${folder}: ${errorMessage(error)}`, error)
  }
}

/** Adds the command that continues to the error of a full disk. */
export function withContinuation(error: unknown, command: readonly string[]): unknown {
  if (!isOsmosisError(error) || error.code !== 'storage_error') return error
  const lines = [error.message, ...withCommand('Continue:', command)]
  return new OsmosisError('storage_error', lines.join('\n'), { cause: error })
}

async function orUnwritable(file: string, flag: string, write: () => Promise<void>): Promise<void> {
  try {
    await write()
  } catch (error) {
    throw invalid(`${flag} cannot be written to ${file}: ${errorMessage(error)}`, error)
  }
}
