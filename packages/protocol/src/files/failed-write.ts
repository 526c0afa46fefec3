import { statfs } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'

/**
 * The error of a failed write, with code `storage_error`: which file, and how much is free.
 *
 * @param advice - sentences: what is stored, and how to continue
 */
export async function failedWrite(
  file: string,
  cause: unknown,
  advice: string,
): Promise<OsmosisError> {
  const folder = path.dirname(file)
  const failed = `Cannot write to ${file}: ${errorMessage(cause)}.`
  if (['EACCES', 'EPERM', 'EROFS'].includes((cause as NodeJS.ErrnoException).code ?? '')) {
    const permit = `Let this user write to ${folder}, or choose another folder.`
    return new OsmosisError('storage_error', `${failed} ${permit}`, { cause })
  }
  const free = await statfs(folder).then(
    ({ bavail, bsize }) => ` ${formatBytes(bavail * bsize)} are free in ${folder}.`,
    () => '',
  )
  return new OsmosisError('storage_error', `${failed}${free} ${advice}`, { cause })
}

/** The error of a full disk as {@link failedWrite} makes it, and every other error as it is. */
export async function namedFullDisk(
  error: unknown,
  { folder, advice }: { readonly folder: string; readonly advice: string },
): Promise<unknown> {
  const { code = '', path: file } = error as NodeJS.ErrnoException
  if (!['ENOSPC', 'EDQUOT', 'EFBIG'].includes(code)) return error
  return failedWrite(file ?? path.join(folder, '.'), error, advice)
}

function formatBytes(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1)
  const value = bytes / 1024 ** power
  return `${power === 0 ? value : value.toFixed(1)} ${units[power]}`
}
