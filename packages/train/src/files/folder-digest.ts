import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'

/** Size, and digest of names and contents, of all files of a folder, those in its folders included, but none whose name begins with a dot. */
export async function digestFolder(
  folder: string,
): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const digest = createHash('sha256')
  let bytes = 0
  for (const name of (await readdir(folder, { recursive: true })).toSorted()) {
    if (name.split(path.sep).some((part) => part.startsWith('.'))) continue
    const file = path.join(folder, name)
    // Files of models are links in the cache of the hub. One that leads nowhere has no content.
    const found = await stat(file).catch(unlessMissing)
    if (!found?.isFile()) continue
    bytes += found.size
    digest.update(`${name}\0${found.size}\0`)
    await pipeline(createReadStream(file), digest, { end: false })
  }
  return { bytes, sha256: digest.digest('hex') }
}

function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
