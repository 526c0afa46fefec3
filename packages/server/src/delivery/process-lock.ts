import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'

/** A name that no other process of this machine or container can lock. */
export interface ProcessLock {
  release(): Promise<void>
}

/**
 * Locks a name by listening on a local socket. The system closes the socket with the process, however that
 * ends, so a lock never outlives its owner. Only processes of the same machine or container see it.
 *
 * @param inUse - the message when another process has the lock
 * @throws OsmosisError with code `invalid_config` then
 */
export async function lockName(name: string, inUse: string): Promise<ProcessLock> {
  const address = lockAddress(name)
  const server = (await listen(address)) ?? (await listenAfterCrash(address))
  if (server === undefined) throw new OsmosisError('invalid_config', inUse)
  server.unref()
  return {
    release: async () => {
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}

/** Undefined when the address is in use. */
async function listen(address: string): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy())
  // Not shared with the workers of a cluster.
  server.listen({ path: address, exclusive: true })
  try {
    await once(server, 'listening')
    return server
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return undefined
    throw error
  }
}

/** Where a socket is a file, a killed process leaves it behind. */
async function listenAfterCrash(address: string): Promise<Server | undefined> {
  if (!path.isAbsolute(address) || !(await isAbandoned(address))) return undefined
  await rm(address, { force: true })
  return listen(address)
}

async function isAbandoned(address: string): Promise<boolean> {
  const socket = connect(address)
  try {
    await once(socket, 'connect')
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
  } finally {
    socket.destroy()
  }
}

/** Socket names are limited to about 100 bytes, so the socket is not in a folder of the user. */
function lockAddress(locked: string): string {
  const name = `osmosis-${createHash('sha256').update(locked).digest('hex').slice(0, 32)}`
  // An abstract name, which is not a file and ends with its process.
  if (process.platform === 'linux') return `\0${name}`
  return process.platform === 'win32' ? `\\\\.\\pipe\\${name}` : path.join(tmpdir(), `${name}.sock`)
}
