import { constants } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readlink, realpath, stat } from 'node:fs/promises'
import path from 'node:path'

import { OsmosisError } from '../errors.ts'

// What is in a folder of a model's code may be anything, and change while it is opened.

/** How much of a file is read by default. Bytes. */
export const defaultMaxBytes = 64 * 1024 * 1024

/**
 * Opens a regular file whose real path is below a folder. The caller closes it.
 *
 * @param flags - as `open` of Linux has them
 * @throws OsmosisError with code `invalid_request` for a path outside, `tool_failed` for anything but a regular file; the error of
 * the file system
 */
export async function openBelow(folder: string, file: string, flags: number): Promise<FileHandle> {
  return openChecked(folder, file, { at: await pathBelow(folder, file), flags })
}

/**
 * Opens a regular file below a folder for writing. It is created where it does not exist, as are its folders. Each folder
 * is opened below the one before, so that nothing is created outside when one of them becomes a link meanwhile; only
 * Linux can do that. The caller closes the file.
 *
 * @throws as `openBelow`
 */
export async function createBelow(folder: string, file: string): Promise<FileHandle> {
  const flags = constants.O_WRONLY | constants.O_CREAT
  const target = await pathBelow(folder, file)
  await lstat(target).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  const root = await realpath(folder)
  const names = path.relative(root, target).split(path.sep)
  const name = names.pop() ?? ''
  let shown = root
  let parent = await open(root, constants.O_DIRECTORY)
  const below = (child: string): string => `/proc/self/fd/${parent.fd}/${child}`
  try {
    if (!(await exists(below('.')))) {
      await mkdir(path.dirname(target), { recursive: true })
      return await openBelow(folder, file, flags)
    }
    for (const child of names) {
      const next = await openFolder(below(child))
      await parent.close()
      parent = next
      shown = path.join(shown, child)
    }
    return await openChecked(folder, file, { at: below(name), flags })
  } catch (error) {
    // The policy reads it, and knows the names of files.
    if (error instanceof Error) error.message = error.message.replace(below(''), shown + path.sep)
    throw error
  } finally {
    await parent.close()
  }
}

/** Opens a folder that is no link, and creates it where it does not exist. */
async function openFolder(at: string): Promise<FileHandle> {
  const flags = constants.O_DIRECTORY | constants.O_NOFOLLOW
  try {
    return await open(at, flags)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  await mkdir(at).catch((error: NodeJS.ErrnoException) => {
    // Another one was faster.
    if (error.code !== 'EEXIST') throw error
  })
  return open(at, flags)
}

async function openChecked(
  folder: string,
  file: string,
  { at, flags }: { readonly at: string; readonly flags: number },
): Promise<FileHandle> {
  // The open of a FIFO would wait for its other end, and block a thread of libuv for as long.
  const safely = flags | constants.O_NONBLOCK | constants.O_NOFOLLOW
  const handle = await open(at, safely).catch((error: NodeJS.ErrnoException) => {
    // No reader of a FIFO, or a socket.
    throw error.code === 'ENXIO' ? notRegular(file) : error
  })
  try {
    const opened = await handle.stat()
    if (!opened.isFile()) throw notRegular(file)
    // A folder may have become a link since its real path was read. Only Linux knows what was opened.
    const real = await readlink(`/proc/self/fd/${handle.fd}`).catch(async () =>
      pathBelow(folder, file),
    )
    if (!isBelow(await realpath(folder), real)) throw outside(file)
    return handle
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** Reads a file whose size may be false, such as one that grows. */
export async function readLimited(
  handle: FileHandle,
  file: string,
  maxBytes: number,
): Promise<Uint8Array> {
  const { size } = await handle.stat()
  const pieces: Uint8Array[] = []
  let length = size > maxBytes ? size : 0
  while (length <= maxBytes) {
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.allocUnsafe(64 * 1024) })
    if (bytesRead === 0) return Buffer.concat(pieces)
    pieces.push(buffer.subarray(0, bytesRead))
    length += bytesRead
  }
  throw tooLarge(file, maxBytes)
}

export function tooLarge(file: string, maxBytes: number): OsmosisError {
  return new OsmosisError(
    'tool_failed',
    `${file} has more than ${maxBytes} bytes, the limit of maxBytes: raise it, or read a part of the file with a command.`,
  )
}

/**
 * The real path of a file below a folder, with links followed. The file may not exist yet.
 *
 * @throws OsmosisError with code `invalid_request` for a path outside, `tool_failed` for a link to a device or the like
 */
export async function pathBelow(folder: string, file: string): Promise<string> {
  const root = await realpath(folder)
  const target = path.resolve(root, file)
  if (!isBelow(root, target)) throw outside(file)
  let known = target
  while (!(await exists(known))) known = path.dirname(known)
  // A link that leads nowhere has no real path: writing to it would create what it names.
  const start = await realpath(known).catch(() => '')
  const real = path.join(start, path.relative(known, target))
  if (isBelow(root, real)) return real
  const found = await stat(real).catch(() => undefined)
  const isOrdinary = found === undefined || found.isFile() || found.isDirectory()
  throw isOrdinary ? outside(file) : notRegular(file)
}

function isBelow(root: string, target: string): boolean {
  return target === root || target.startsWith(root === path.sep ? root : root + path.sep)
}

function outside(file: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `${file} is outside of the folder of the sandbox: expected a path below it.`,
  )
}

function notRegular(file: string): OsmosisError {
  return new OsmosisError('tool_failed', `${file} is not a regular file.`)
}

async function exists(file: string): Promise<boolean> {
  return lstat(file).then(
    () => true,
    () => false,
  )
}
