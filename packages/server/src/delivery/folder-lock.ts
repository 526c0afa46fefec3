import { randomUUID, createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
} from 'node:fs'
import { utimes, rm } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { OsmosisError } from '@osmosis/core'

import {
  fileIn,
  lookAt,
  nameOf,
  numbersIn,
  overwrite,
  textOf,
  type Owner,
  type OwnerState,
} from './owner-file.ts'

/** Options of {@link FolderLock}. */
export interface FolderLockOptions {
  /** How often the owner of a folder shows that it lives. Milliseconds; default 3 s. */
  readonly beatMs?: number | undefined
  /** How long an owner may show nothing before it is taken for dead. Milliseconds; default 15 s. */
  readonly patienceMs?: number | undefined
  /** Whose local sockets this process sees; default: what the system says. */
  readonly namespace?: string | undefined
  /** Called before the wait for an owner that may be dead. */
  readonly onWaiting?: ((owner: string, patienceMs: number) => void) | undefined
  /** Called once, when another process has taken the folder over. */
  readonly onLost?: ((error: OsmosisError) => void) | undefined
}

/**
 * A folder that one process may use, wherever the others are: on this machine, in other containers or on
 * other hosts. The file `owner-<n>.lock` with the highest number says who owns it, and its time is renewed for
 * as long as the owner lives. Making the next number takes the folder over: only one process can make it. That
 * process removes the files below, and so an owner that was wrongly taken for dead finds out. Numbers never
 * come again, because the last file stays.
 *
 * In addition the owner has a local socket, which the system closes with its process. Processes of the same
 * network namespace know by it at once whether the owner lives.
 */
export class FolderLock {
  readonly #folder: string
  readonly #options: FolderLockOptions
  readonly #socket: ProcessLock
  /** Of the file that says that the folder is owned by this process. */
  #number = 1
  /** Undefined: the disk takes nothing, and so nobody writes to the folder. */
  #file: { readonly path: string; readonly text: string } | undefined
  #timer: NodeJS.Timeout | undefined
  #beating: Promise<void> | undefined
  #lost: OsmosisError | undefined
  #isReleased = false

  private constructor(folder: string, options: FolderLockOptions, socket: ProcessLock) {
    this.#folder = folder
    this.#options = options
    this.#socket = socket
  }

  /**
   * Takes an existing folder.
   *
   * @throws OsmosisError with code `invalid_config` when another process uses it
   */
  static async take(named: string, options: FolderLockOptions = {}): Promise<FolderLock> {
    const folder = realpathSync(named)
    const { namespace } = options
    const name = namespace === undefined ? folder : `${namespace} ${folder}`
    const lock = new FolderLock(
      folder,
      options,
      await lockName(name, inUseText('Another server', folder)),
    )
    try {
      await lock.#takeOver()
    } catch (error) {
      await lock.#socket.release()
      throw error
    }
    lock.#beatLater()
    return lock
  }

  /** Whether another process has taken the folder over, as far as can be seen. */
  get isLost(): boolean {
    try {
      this.assertHeld()
    } catch {
      // Also where the disk does not say.
    }
    return this.#lost !== undefined
  }

  /**
   * To be called before something in the folder is changed, and before what was kept there is shown.
   *
   * @throws OsmosisError with code `storage_error` when another process has taken the folder over
   */
  assertHeld(): void {
    if (this.#lost !== undefined) throw this.#lost
    if (this.#isReleased) return
    // Opened each time: what is known of a file without opening it may be old on a network disk.
    if (this.#file && textOf(this.#file.path) === this.#file.text) return
    // What is written to a folder that was removed fails.
    if (!existsSync(this.#folder)) return
    const [last = 0] = numbersIn(this.#folder)
    // The disk may take something again; or somebody has made the folder again, and it belongs to whoever is
    // the first to say so.
    const isFree = this.#file === undefined ? last < this.#number : last === 0
    if (isFree && this.#isMade()) return
    const other = nameOf(lookAt(fileIn(this.#folder, last))?.owner)
    const message = `${other} has taken over the folder ${this.#folder}, because this one had given no sign of life for a while. This server ends and tells nothing more: the other one tells what becomes of its rollouts.`
    this.#lost = new OsmosisError('storage_error', message)
    this.#options.onLost?.(this.#lost)
    throw this.#lost
  }

  /** Lets other processes have the folder. */
  async release(): Promise<void> {
    if (this.#isReleased) return
    this.#isReleased = true
    clearTimeout(this.#timer)
    await this.#beating
    if (this.#file !== undefined && textOf(this.#file.path) === this.#file.text) {
      overwrite(this.#file.path, this.#file.text.replace('"held"', '"free"'))
    }
    await this.#socket.release()
  }

  async #takeOver(): Promise<void> {
    for (;;) {
      const [last = 0] = numbersIn(this.#folder)
      if (last > 0) await this.#awaitDeath(fileIn(this.#folder, last))
      this.#number = last + 1
      if (this.#isMade()) return
    }
  }

  /**
   * Resolves when the owner of a file has let the folder go, or is dead.
   *
   * @throws OsmosisError with code `invalid_config` when it lives
   */
  async #awaitDeath(file: string): Promise<void> {
    const { patienceMs = 15_000, onWaiting } = this.#options
    const first = lookAt(file)
    if (first === undefined || this.#isGone(first)) return
    onWaiting?.(nameOf(first.owner), patienceMs)
    const started = performance.now()
    for (;;) {
      await sleep(patienceMs / 30)
      const sign = lookAt(file)
      if (sign === undefined || this.#isGone(sign)) return
      if (sign.mark !== first.mark) {
        throw new OsmosisError('invalid_config', inUseText(nameOf(sign.owner), this.#folder))
      }
      if (performance.now() - started >= patienceMs) return
    }
  }

  /** Whether an owner has said that it lets go, or cannot live because this process has its socket. */
  #isGone({ owner }: OwnerState): boolean {
    if (owner === undefined) return false
    if (owner.state === 'free') return true
    const namespace = this.#namespace
    return namespace !== null && owner.namespace === namespace && owner.folder === this.#folder
  }

  get #namespace(): string | null {
    return this.#options.namespace ?? ownNamespace()
  }

  /** Makes the file with its number; false when another process was quicker. */
  #isMade(): boolean {
    const file = fileIn(this.#folder, this.#number)
    const owner: Owner = {
      state: 'held',
      id: randomUUID(),
      host: hostname(),
      pid: process.pid,
      namespace: this.#namespace,
      folder: this.#folder,
    }
    try {
      closeSync(openSync(file, 'wx', 0o600))
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EEXIST') return false
      // What is to be told is told all the same.
      if (code === 'EROFS' || code === 'ENOSPC' || code === 'EDQUOT') return true
      throw error
    }
    overwrite(file, `${JSON.stringify(owner)}\n`)
    // On a full disk a part of it.
    this.#file = { path: file, text: textOf(file) ?? '' }
    for (const number of numbersIn(this.#folder)) {
      if (number < this.#number) rmSync(fileIn(this.#folder, number), { force: true })
    }
    return true
  }

  #beatLater(): void {
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
    }, this.#options.beatMs ?? 3000).unref()
  }

  async #beat(): Promise<void> {
    try {
      this.assertHeld()
      const now = new Date()
      if (this.#file !== undefined) await utimes(this.#file.path, now, now)
    } catch {
      // Whoever is about to write finds out what is wrong.
    }
    if (this.#lost === undefined && !this.#isReleased) this.#beatLater()
  }
}

function inUseText(who: string, folder: string): string {
  return `${who} uses the folder ${folder}. Give each server a folder of its own.`
}

/** Equal only where processes see the same local sockets; null where the system does not say. */
function ownNamespace(): string | null {
  if (process.platform !== 'linux') return hostname()
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot} ${readlinkSync('/proc/self/ns/net')}`
  } catch {
    return null
  }
}

/** Something that no other process of this machine or container may use. */
export interface ProcessLock {
  release(): Promise<void>
}

/**
 * Locks a name by listening on a local socket that belongs to it. The system closes the socket with
 * the process, however that ends, so a lock never outlives its owner. It is seen by processes of the
 * same machine or container.
 *
 * @param inUse - what to say when somebody holds it
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

/** Undefined when somebody listens there already. */
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

/** A process that was killed leaves the name of its socket behind where that is a file. */
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

/** Names of sockets may have about 100 bytes, so it is in no folder of the user's. */
function lockAddress(locked: string): string {
  const name = `osmosis-${createHash('sha256').update(locked).digest('hex').slice(0, 32)}`
  // A name that is no file, and goes with its process.
  if (process.platform === 'linux') return `\0${name}`
  return process.platform === 'win32' ? `\\\\.\\pipe\\${name}` : path.join(tmpdir(), `${name}.sock`)
}
