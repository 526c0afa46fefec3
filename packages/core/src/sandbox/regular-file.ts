import { constants } from 'node:fs'
import { type FileHandle, lstat, open, readlink, realpath, stat } from 'node:fs/promises'
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
  const target = await pathBelow(folder, file)
  // The open of a FIFO would wait for its other end, and block a thread of libuv for as long.
  const safely = flags | constants.O_NONBLOCK | constants.O_NOFOLLOW
  const handle = await open(target, safely).catch((error: NodeJS.ErrnoException) => {
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
