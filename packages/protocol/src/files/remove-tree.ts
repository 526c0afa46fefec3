import { randomUUID } from 'node:crypto'
import { chmod, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'

/**
 * Deletes a folder in which a model's code may have made anything. `rm` alone fails at paths that are longer than the system
 * accepts, and at folders that cannot be read.
 *
 * @throws the error of the file system
 */
export async function removeTree(folder: string): Promise<void> {
  const options = { recursive: true, force: true, maxRetries: 3 }
  try {
    await rm(folder, options)
  } catch {
    // What is below each folder moves up to the top, so that no path gets longer.
    let folders = await foldersIn(folder)
    while (folders.length > 0) {
      for (const each of folders) {
        for (const below of await foldersIn(each)) {
          // A folder that moves is written to.
          await chmod(below, 0o700)
          await rename(below, path.join(folder, randomUUID()))
        }
        await rm(each, options)
      }
      folders = await foldersIn(folder)
    }
    await rm(folder, options)
  }
}

async function foldersIn(folder: string): Promise<string[]> {
  await chmod(folder, 0o700)
  const entries = await readdir(folder, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => path.join(folder, name))
}
