import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, readlinkSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import path from 'node:path'

import type { OsmosisError } from '@osmosis/core'

/** A name that no other process of this machine or container can lock. */
export interface ProcessLock {
  readonly name: string
  release(): Promise<void>
}

/** Whether sockets are files, which outlive their process and can be removed by another one. */
const areSocketsFiles = process.platform !== 'linux' && process.platform !== 'win32'

/**
 * Locks a name by listening on a local socket. The system closes the socket with the process, however that
 * ends, so a lock never outlives its owner. Only processes of the same machine or container see it.
 *
 * @throws `inUse` when another process has the lock
 */
export async function lockName(name: string, inUse: () => OsmosisError): Promise<ProcessLock> {
  const address = lockAddress(name)
  const server = (await listen(address)) ?? (await listenAfterCrash(address))
  if (server === undefined) throw inUse()
  server.unref()
  return {
    name,
    release: async () => {
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}

/**
 * Whether a process that has locked a name still runs; undefined when that cannot be seen from here.
 *
 * @param namespace - of this process, see {@link ownNamespace}
 * @param ownSocket - a name that this process has locked
 */
export function isRunning(
  owner: { readonly pid: number; readonly namespace: string | null; readonly socket: string },
  namespace: string | null,
  ownSocket?: string,
): boolean | undefined {
  if (namespace === null || owner.namespace !== namespace) return undefined
  // Two processes that find the same abandoned file of a socket can both get the socket.
  const isSocketSafe = !areSocketsFiles || owner.pid === process.pid
  if (owner.socket === ownSocket && isSocketSafe) return false
  // The id of a process that has exited may have been given to another one.
  return isNameLocked(owner.socket) ?? (isAlive(owner.pid) ? undefined : false)
}

/** Equal only for processes that see the same local sockets; null when unknown. */
export function ownNamespace(): string | null {
  if (process.platform !== 'linux') return `${hostname()} ${tmpdir()}`
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot} ${readlinkSync('/proc/self/ns/net')}`
  } catch {
    return null
  }
}

/** Undefined where only `lockName` can tell. */
function isNameLocked(name: string): boolean | undefined {
  if (process.platform !== 'linux') return undefined
  try {
    return readFileSync('/proc/net/unix', 'utf8').includes(`@${socketName(name)}`)
  } catch {
    return undefined
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // It may belong to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
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
  if (!areSocketsFiles || !(await isAbandoned(address))) return undefined
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
  const name = socketName(locked)
  if (areSocketsFiles) return path.join(tmpdir(), `${name}.sock`)
  // An abstract name, which ends with its process.
  return process.platform === 'linux' ? `\0${name}` : `\\\\.\\pipe\\${name}`
}

function socketName(locked: string): string {
  return `osmosis-${createHash('sha256').update(locked).digest('hex').slice(0, 32)}`
}
