import { randomUUID } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import path from 'node:path'

/** Options of {@link writeFileAtomically}. */
export interface AtomicWriteOptions {
  /** Permissions of the file, such as `0o600`; default: those of new files of the process. */
  readonly mode?: number | undefined
  /**
   * What survives a power failure once the promise has resolved: the text and its name
   * (`file-and-folder`, the default), the text under its old or new name (`file`), or no guarantee
   * (`nothing`).
   */
  readonly sync?: 'file-and-folder' | 'file' | 'nothing' | undefined
}

/**
 * Replaces a file so that readers, also after a crash, see either the old text or the new one. Until
 * then the text is in `<file>.<uuid>.tmp`, which only a crash leaves behind.
 *
 * @param text - the text, or its pieces in order; each is written before the next is requested
 * @throws the error of the file system
 */
export async function writeFileAtomically(
  file: string,
  text: string | Iterable<string | Uint8Array>,
  { mode = 0o666, sync = 'file-and-folder' }: AtomicWriteOptions = {},
): Promise<void> {
  const unfinished = `${file}.${randomUUID()}.tmp`
  try {
    const handle = await open(unfinished, 'wx', mode)
    try {
      await handle.writeFile(text)
      if (sync !== 'nothing') await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(unfinished, file)
  } catch (error) {
    // On a full disk it would take the room of the next file.
    await rm(unfinished, { force: true })
    throw error
  }
  if (sync === 'file-and-folder') await syncFolder(path.dirname(file))
}

/** Makes the names in a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open folders, and makes names durable itself.
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
