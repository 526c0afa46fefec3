import { statfs } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'

/** What a failed write to `file` means, with the room that is left. */
export async function storageError(file: string, cause: unknown): Promise<OsmosisError> {
  const folder = path.dirname(file)
  if (['EACCES', 'EPERM', 'EROFS'].includes((cause as NodeJS.ErrnoException).code ?? '')) {
    return new OsmosisError(
      'storage_error',
      `Cannot write to ${file}: ${errorMessage(cause)}. Let this user write to ${folder}, or name another folder.`,
      { cause },
    )
  }
  const free = await statfs(folder).then(
    ({ bavail, bsize }) => ` ${formatBytes(bavail * bsize)} are free in ${folder}.`,
    () => '',
  )
  return new OsmosisError(
    'storage_error',
    `Cannot write to ${file}: ${errorMessage(cause)}.${free} What has ended so far is kept; make room and start the run again to complete it.`,
    { cause },
  )
}

function formatBytes(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1)
  const value = bytes / 1024 ** power
  return `${power === 0 ? value : value.toFixed(1)} ${units[power]}`
}
