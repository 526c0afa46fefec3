import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { realpath, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'

/** A folder that no other process of this machine may use. */
export interface FolderLock {
  release(): Promise<void>
}

/**
 * Locks an existing folder by listening on a local socket that belongs to it. The system closes
 * the socket with the process, however that ends, so a lock never outlives its owner.
 *
 * @throws OsmosisError with code `invalid_config` when another process holds it
 */
export async function lockFolder(folder: string): Promise<FolderLock> {
  const address = lockAddress(await realpath(folder))
  const server = createServer((socket) => socket.destroy())
  const listen = async (): Promise<void> => {
    server.listen(address)
    await once(server, 'listening')
  }
  try {
    await listen()
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'EADDRINUSE') throw error
    if (await answers(address)) {
      throw new OsmosisError(
        'invalid_config',
        `Another server uses the folder ${folder}. Give each server a folder of its own.`,
      )
    }
    // A process that was killed leaves the name of its socket behind.
    await rm(address, { force: true })
    await listen()
  }
  server.unref()
  return {
    release: async () => {
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}

/** Paths of sockets may have about 100 bytes, so it is not in the folder itself. */
function lockAddress(folder: string): string {
  const name = `osmosis-${createHash('sha256').update(folder).digest('hex').slice(0, 32)}`
  return process.platform === 'win32' ? `\\\\.\\pipe\\${name}` : path.join(tmpdir(), `${name}.sock`)
}

async function answers(address: string): Promise<boolean> {
  const socket = connect(address)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
