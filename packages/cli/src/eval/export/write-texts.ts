import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { lstat, mkdir, open, rename, rm } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError, errorMessage } from '@osmosis/core'

import {
  redaction,
  resolvePath,
  withDataOutput,
  type OutputStream,
} from '../../command/command-context.ts'

/** Transcripts and datasets may be confidential. */
const fileMode = 0o600

/**
 * Writes texts to stdout for `-`, into a pipe, a device or a link that exists, else to a file, which appears when it is
 * complete.
 *
 * @throws OsmosisError with code `storage_error`
 */
export async function writeTexts(
  file: string,
  texts: Iterable<string> | AsyncIterable<string>,
): Promise<void> {
  if (file === '-') {
    await withDataOutput(async (output) => {
      for await (const text of texts) {
        if (output.write(redaction().text(text))) continue
        if (!(await isDrained(output))) return
      }
    })
    return
  }
  const place = resolvePath(file)
  const there = await lstat(place).catch(() => undefined)
  // Whoever reads a pipe, a device or the target of a link would not get a file that takes its place.
  const unfinished = there?.isFile() === false ? undefined : `${place}.${randomUUID()}.tmp`
  try {
    await mkdir(path.dirname(place), { recursive: true })
    const handle = await open(unfinished ?? place, unfinished === undefined ? 'w' : 'wx', fileMode)
    try {
      for await (const text of texts) await handle.appendFile(text)
    } finally {
      await handle.close()
    }
    if (unfinished !== undefined) await rename(unfinished, place)
  } catch (cause) {
    if (unfinished !== undefined) await rm(unfinished, { force: true })
    if (cause instanceof OsmosisError) throw cause
    const message = `Cannot write ${file}: ${errorMessage(cause)}`
    throw new OsmosisError('storage_error', message, { cause })
  }
}

/** Resolves with false when nothing more can be written, as behind `| head`. */
async function isDrained(output: OutputStream): Promise<boolean> {
  // It drains no more after an error, which the process reports where it matters.
  if ('errored' in output && output.errored) return false
  try {
    await once(output, 'drain')
    return true
  } catch {
    return false
  }
}
