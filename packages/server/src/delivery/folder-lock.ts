import { randomUUID } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { utimes } from 'node:fs/promises'
import { hostname } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { OsmosisError } from '@osmosis/core'
import { z } from 'zod'

import { lockName, type ProcessLock } from './process-lock.ts'

/** Options of {@link FolderLock}. */
export interface FolderLockOptions {
  /** How often the owner of a folder renews its file. Milliseconds; default 3 s. */
  readonly heartbeatMs?: number | undefined
  /** After this time without a heartbeat an owner is considered dead. Milliseconds; default 15 s. */
  readonly deadAfterMs?: number | undefined
  /** Identifies the local sockets that this process can see; default: from the system. */
  readonly namespace?: string | undefined
  /** Called before the wait for an owner that may be dead. */
  readonly onWaiting?: ((owner: string, deadAfterMs: number) => void) | undefined
  /** Called once, when another process has taken over the folder. */
  readonly onLost?: ((error: OsmosisError) => void) | undefined
}

/**
 * A folder that only one process may use; the others may be on this machine, in other containers or on
 * other hosts. The file `owner-<n>.lock` with the highest number names the owner, which renews the file's time.
 * A process takes over the folder by creating the file with the next number, which only one process can do. It
 * then removes the earlier files, so an owner that was wrongly considered dead notices the loss. The last file
 * always remains, so no number is used twice.
 *
 * The owner also has a local socket, which the system closes with its process. Processes of the same
 * network namespace detect with it immediately whether the owner is alive.
 */
export class FolderLock {
  readonly #folder: string
  readonly #options: FolderLockOptions
  readonly #socket: ProcessLock
  /** Of the file that names this process as the owner. */
  #number = 1
  /** Undefined on a disk that accepts no writes, where no process can write to the folder. */
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
   * Locks an existing folder.
   *
   * @throws OsmosisError with code `invalid_config` when another process uses it
   */
  static async acquire(givenPath: string, options: FolderLockOptions = {}): Promise<FolderLock> {
    const folder = realpathSync(givenPath)
    const { namespace } = options
    const name = namespace === undefined ? folder : `${namespace} ${folder}`
    const socket = await lockName(name, inUseMessage('Another server', folder))
    const lock = new FolderLock(folder, options, socket)
    try {
      await lock.#takeOver()
    } catch (error) {
      await socket.release()
      throw error
    }
    lock.#scheduleHeartbeat()
    return lock
  }

  /** Whether another process is known to have taken over the folder. */
  get isLost(): boolean {
    try {
      this.assertHeld()
    } catch {
      // Also when the disk cannot be read.
    }
    return this.#lost !== undefined
  }

  /**
   * Call it before the folder is changed, and before its content is shown.
   *
   * @throws OsmosisError with code `storage_error` when another process has taken over the folder
   */
  assertHeld(): void {
    if (this.#lost !== undefined) throw this.#lost
    if (this.#isReleased) return
    // Opens the file each time: on a network disk, its attributes may be outdated without that.
    if (this.#file && readText(this.#file.path) === this.#file.text) return
    // Writes to a removed folder fail anyway.
    if (!existsSync(this.#folder)) return
    const [last = 0] = ownerNumbers(this.#folder)
    // The disk may accept writes again; or the folder was removed and created again, and belongs to the first
    // process that creates a file.
    const isFree = this.#file === undefined ? last < this.#number : last === 0
    if (isFree && this.#createOwnerFile()) return
    const other = describeOwner(readOwner(ownerFile(this.#folder, last))?.owner)
    const message = `${other} has taken over the folder ${this.#folder}, because this server's heartbeat was overdue. This server ends and delivers nothing more: the other server delivers the results of its rollouts.`
    this.#lost = new OsmosisError('storage_error', message)
    this.#options.onLost?.(this.#lost)
    throw this.#lost
  }

  async release(): Promise<void> {
    if (this.#isReleased) return
    this.#isReleased = true
    clearTimeout(this.#timer)
    await this.#beating
    if (this.#file !== undefined && readText(this.#file.path) === this.#file.text) {
      overwrite(this.#file.path, this.#file.text.replace('"held"', '"free"'))
    }
    await this.#socket.release()
  }

  async #takeOver(): Promise<void> {
    for (;;) {
      const [last = 0] = ownerNumbers(this.#folder)
      if (last > 0) await this.#waitForDeath(ownerFile(this.#folder, last))
      this.#number = last + 1
      if (this.#createOwnerFile()) return
    }
  }

  /**
   * Resolves when the owner in a file has released the folder, or is dead.
   *
   * @throws OsmosisError with code `invalid_config` when it is alive
   */
  async #waitForDeath(file: string): Promise<void> {
    const { deadAfterMs = 15_000, onWaiting } = this.#options
    const first = readOwner(file)
    if (first === undefined || this.#hasLeft(first)) return
    onWaiting?.(describeOwner(first.owner), deadAfterMs)
    const started = performance.now()
    for (;;) {
      await sleep(deadAfterMs / 30)
      const current = readOwner(file)
      if (current === undefined || this.#hasLeft(current)) return
      if (current.heartbeat !== first.heartbeat) {
        throw new OsmosisError(
          'invalid_config',
          inUseMessage(describeOwner(current.owner), this.#folder),
        )
      }
      if (performance.now() - started >= deadAfterMs) return
    }
  }

  /** Whether an owner has released the folder, or is dead because this process has its socket. */
  #hasLeft({ owner }: OwnerState): boolean {
    if (owner === undefined) return false
    if (owner.state === 'free') return true
    const namespace = this.#namespace
    return namespace !== null && owner.namespace === namespace && owner.folder === this.#folder
  }

  get #namespace(): string | null {
    return this.#options.namespace ?? ownNamespace()
  }

  /** Creates the file with its number; false when another process was faster. */
  #createOwnerFile(): boolean {
    const file = ownerFile(this.#folder, this.#number)
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
      // Pending results can be delivered without writing.
      if (code === 'EROFS' || code === 'ENOSPC' || code === 'EDQUOT') return true
      throw error
    }
    overwrite(file, `${JSON.stringify(owner)}\n`)
    // A full disk contains only a part of it.
    this.#file = { path: file, text: readText(file) ?? '' }
    for (const number of ownerNumbers(this.#folder)) {
      if (number < this.#number) rmSync(ownerFile(this.#folder, number), { force: true })
    }
    return true
  }

  #scheduleHeartbeat(): void {
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
    }, this.#options.heartbeatMs ?? 3000).unref()
  }

  async #beat(): Promise<void> {
    try {
      this.assertHeld()
      const now = new Date()
      if (this.#file !== undefined) await utimes(this.#file.path, now, now)
    } catch {
      // The next write reports the error.
    }
    if (this.#lost === undefined && !this.#isReleased) this.#scheduleHeartbeat()
  }
}

function inUseMessage(owner: string, folder: string): string {
  return `${owner} uses the folder ${folder}. Give each server a folder of its own.`
}

/** Equal only for processes that see the same local sockets; null when unknown. */
function ownNamespace(): string | null {
  if (process.platform !== 'linux') return hostname()
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot} ${readlinkSync('/proc/self/ns/net')}`
  } catch {
    return null
  }
}

const ownerSchema = z.object({
  /** Both values have the same length, because the file is overwritten in place. */
  state: z.enum(['held', 'free']),
  id: z.uuid(),
  host: z.string(),
  pid: z.number(),
  /** Identifies the local sockets that the owner can see; null: unknown. */
  namespace: z.string().nullable(),
  /** The owner's path of the folder, from which its local socket has its name. */
  folder: z.string(),
})

/** The content of an owner file. */
type Owner = z.output<typeof ownerSchema>

interface OwnerState {
  /** Undefined when the content cannot be parsed. */
  readonly owner: Owner | undefined
  /** Changes with each heartbeat. */
  readonly heartbeat: string
}

const ownerFileName = /^owner-(\d{8,})\.lock$/

/** Numbers of the owner files, the highest first. */
function ownerNumbers(folder: string): number[] {
  const names = unlessMissing(() => readdirSync(folder)) ?? []
  const numbers = names.map((name) => Number(ownerFileName.exec(name)?.[1]))
  return numbers.filter((number) => !Number.isNaN(number)).toSorted((a, b) => b - a)
}

function ownerFile(folder: string, number: number): string {
  return path.join(folder, `owner-${String(number).padStart(8, '0')}.lock`)
}

/** Undefined when there is no such file. */
function readOwner(file: string): OwnerState | undefined {
  return unlessMissing(() => {
    const fd = openSync(file, 'r')
    try {
      const { mtimeMs } = fstatSync(fd)
      const text = readFileSync(fd, 'utf8')
      return { owner: parseOwner(text), heartbeat: `${mtimeMs} ${text}` }
    } finally {
      closeSync(fd)
    }
  })
}

function parseOwner(text: string): Owner | undefined {
  try {
    return ownerSchema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** Undefined when there is no such file. */
function readText(file: string): string | undefined {
  return unlessMissing(() => readFileSync(file, 'utf8'))
}

/** Ignores errors such as a full disk: that the file exists is sufficient. */
function overwrite(file: string, text: string): void {
  try {
    const fd = openSync(file, 'r+')
    try {
      writeSync(fd, text, 0)
    } finally {
      closeSync(fd)
    }
  } catch {
    // See above.
  }
}

function unlessMissing<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    // A network disk reports ESTALE for a file that another machine has removed.
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESTALE') return undefined
    throw error
  }
}

function describeOwner(owner: Owner | undefined): string {
  if (owner === undefined) return 'Another server'
  return `Another server (process ${owner.pid} on host ${owner.host})`
}
