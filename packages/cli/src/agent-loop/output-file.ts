import { mkdir, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'

/**
 * Makes the folder that results will be written to: what is wrong with it is said before the work
 * is done, not after.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export async function assertOutputFile(file: string | undefined): Promise<void> {
  if (file === undefined) return
  try {
    await mkdir(path.dirname(path.resolve(file)), { recursive: true })
  } catch (error) {
    throw new OsmosisError(
      'invalid_config',
      `--output cannot be written to ${file}: ${errorMessage(error)}`,
      { cause: error },
    )
  }
  const there = await stat(file).catch(() => undefined)
  if (there?.isDirectory() !== true && !file.endsWith('/')) return
  throw new OsmosisError(
    'invalid_config',
    `--output must name a file, e.g. ${path.join(file, 'results.json')}; ${file} is a folder.`,
  )
}

/** Writes results as JSON. */
export async function writeOutput(file: string, document: object): Promise<void> {
  await writeFile(file, `${JSON.stringify(document, null, 2)}\n`)
}
