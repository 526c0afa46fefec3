import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'

/** What the files of a folder are. */
export interface FolderDigest {
  readonly bytes: number
  /** Of their names and contents. */
  readonly sha256: string
}

/** Reads all files of a folder, those in its folders included, but none whose name begins with a dot. */
export async function digestFolder(folder: string): Promise<FolderDigest> {
  const digest = createHash('sha256')
  let bytes = 0
  for (const name of (await readdir(folder, { recursive: true })).toSorted()) {
    const file = path.join(folder, name)
    // Files of models are links in the cache of the hub.
    const { size, isFile } = await stat(file).then((found) => ({
      size: found.size,
      isFile: found.isFile(),
    }))
    if (!isFile || name.split(path.sep).some((part) => part.startsWith('.'))) continue
    bytes += size
    digest.update(`${name}\0${size}\0`)
    await pipeline(createReadStream(file), digest, { end: false })
  }
  return { bytes, sha256: digest.digest('hex') }
}
