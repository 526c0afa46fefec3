import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { fromHere, printOut, standardOutput, type OutputStream } from '../surroundings.ts'

/** Transcripts and datasets may be confidential. */
const fileMode = 0o600

/**
 * Writes texts to a file, which is there when it is whole; or to stdout, for `-`.
 *
 * @throws OsmosisError with code `storage_error`
 */
export async function writeTexts(
  file: string,
  texts: Iterable<string> | AsyncIterable<string>,
): Promise<void> {
  if (file === '-') {
    for await (const text of texts) {
      if (printOut(text)) continue
      if (!(await isDrained(standardOutput()))) return
    }
    return
  }
  const place = fromHere(file)
  const unfinished = `${place}.${randomUUID()}.tmp`
  try {
    await mkdir(path.dirname(place), { recursive: true })
    const handle = await open(unfinished, 'wx', fileMode)
    try {
      for await (const text of texts) await handle.appendFile(text)
    } finally {
      await handle.close()
    }
    await rename(unfinished, place)
  } catch (cause) {
    await rm(unfinished, { force: true })
    if (cause instanceof OsmosisError) throw cause
    const message = `Cannot write ${file}: ${errorMessage(cause)}`
    throw new OsmosisError('storage_error', message, { cause })
  }
}

/** Resolves with false when nobody reads on, as behind `| head`: what is left is not wanted. */
async function isDrained(output: OutputStream): Promise<boolean> {
  if ('errored' in output && isNotRead(output.errored)) return false
  try {
    await once(output, 'drain')
    return true
  } catch (error) {
    if (!isNotRead(error)) throw error
    return false
  }
}

function isNotRead(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EPIPE'
}

/** @throws OsmosisError with code `invalid_config` for a file that is there */
export function assertNewFile(file: string | undefined, force: boolean): void {
  if (file === undefined || file === '-' || force || !existsSync(fromHere(file))) return
  throw new OsmosisError('invalid_config', `${file} is there already. Pass --force to replace it.`)
}

/** @throws OsmosisError with code `invalid_config` for a folder in which something is */
export async function assertEmptyFolder(folder: string | undefined, force: boolean): Promise<void> {
  if (folder === undefined || force || !existsSync(fromHere(folder))) return
  const entries = await readdir(fromHere(folder)).catch(() => ['a file'])
  if (entries.length === 0) return
  throw new OsmosisError(
    'invalid_config',
    `${folder} is there already, and not an empty folder. Pass --force to write into it.`,
  )
}
