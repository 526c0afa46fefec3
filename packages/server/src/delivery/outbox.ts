import { randomUUID } from 'node:crypto'
import { access, constants, mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import type { RolloutState } from '@osmosis/protocol'
import {
  FolderLock,
  writeFileAtomically,
  type FolderLockOptions,
  type LockOwner,
} from '@osmosis/protocol/files'

import { OutboxJournal, type JournalFolder } from '../journal/journal.ts'
import { toEntry, toFirstLine, type OutboxAcceptance } from '../journal/outbox-lines.ts'
import type { Logger } from '../logging/logger.ts'
import { EndedRollouts, type RememberedRollout } from './ended-rollouts.ts'
import { readRecord, OutboxRecord } from './outbox-record.ts'

/** What earlier processes left in an outbox. */
export interface Leftovers {
  /** Rollouts that are not delivered completely, in the order of their acceptance. */
  readonly records: readonly OutboxRecord[]
  /** Rollouts that are, in the order of their ends. */
  readonly ended: readonly RememberedRollout[]
}

/**
 * Stores the rollouts of a server on disk, so that they survive the process: each has a record from its
 * acceptance until it is delivered completely.
 */
export class Outbox {
  readonly #folder: OutboxFolder
  readonly #journal: OutboxJournal
  readonly #ended: EndedRollouts
  readonly #logger: Logger
  readonly #held = new Set<Promise<void>>()

  constructor(folder: string, logger: Logger, lock: Partial<FolderLockOptions> = {}) {
    this.#folder = new OutboxFolder(folder, {
      ...lock,
      onWaiting: (owner, deadAfterMs) =>
        logger.warn(
          { folder, wait_seconds: deadAfterMs / 1000 },
          `${describeOwner(owner)} may still use the outbox: waiting for its heartbeat until the time is over`,
        ),
    })
    this.#journal = new OutboxJournal(this.#folder, (what, error) => {
      // The loss of the folder was logged once.
      if (!this.#folder.isLost) logger.error({ error }, `${what}: ${errorMessage(error)}`)
    })
    this.#ended = new EndedRollouts(this.#folder)
    this.#logger = logger
  }

  /** Number of stored rollouts. */
  get count(): number {
    return this.#journal.count
  }

  /**
   * Locks the folder and resolves with what earlier processes left.
   *
   * @throws OsmosisError with code `invalid_config` when it is not a writable folder, another process uses
   * it, or its content cannot be read
   */
  async open(): Promise<Leftovers> {
    await this.#folder.open()
    try {
      // First, because the journal compacts nothing more once it was opened and closed, and a failed opening can be tried again.
      const ended = await this.#ended.read()
      return { records: await this.#records(), ended }
    } catch (error) {
      await this.close()
      const why = `The content of the outbox ${this.#folder.path} cannot be read: ${errorMessage(error)}`
      throw new OsmosisError('invalid_config', why, { cause: error })
    }
  }

  /** Keeps it open until the returned function is called: a rollout may be refused after it was stored. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#held.add(promise)
    return () => {
      this.#held.delete(promise)
      resolve()
    }
  }

  /**
   * Stores a rollout that is about to be accepted; when this resolves it survives the process and
   * the machine.
   *
   * @throws the error of the file system; nothing is stored then
   */
  async accept(acceptance: OutboxAcceptance): Promise<OutboxRecord> {
    const id = randomUUID()
    await this.#journal.accept(id, toFirstLine(id, acceptance))
    return new OutboxRecord(acceptance, { id, journal: this.#journal, logger: this.#logger })
  }

  /**
   * Call it when a rollout has ended. Without pending callbacks, its record is removed, and it is only
   * remembered; callbacks that were refused permanently are written to a file for the operator.
   *
   * @param state - how it ended, for later status requests
   * @returns whether no callback is pending
   */
  async finish(record: OutboxRecord, state: RolloutState | undefined): Promise<boolean> {
    if (record.undelivered.length > 0) return false
    const { rolloutId, key, digest, answer } = record.acceptance
    try {
      // Before the removal, so that the rollout is known at all times.
      if (answer !== null) await this.#ended.add({ key, digest, answer, state, at: Date.now() })
      if (record.refused.length > 0) {
        const refused = { rollout_id: rolloutId, refused: record.refused.map(toEntry) }
        const text = `${JSON.stringify(refused, undefined, 2)}\n`
        await this.#folder.write(`${record.id}.refused`, text)
      }
    } catch (error) {
      if (this.#folder.isLost) return true
      const line = { rollout_id: rolloutId, error }
      this.#logger.error(line, `outbox is out of date: ${errorMessage(error)}`)
      return true
    }
    await record.remove()
    return true
  }

  /** Finishes all writes, and releases the folder. */
  async close(): Promise<void> {
    await Promise.all(this.#held)
    try {
      await this.#ended.close()
    } finally {
      try {
        await this.#journal.close()
      } finally {
        await this.#folder.close()
      }
    }
  }

  async #records(): Promise<OutboxRecord[]> {
    const found = await this.#journal.open(
      ({ record: { id }, lines }) =>
        readRecord(lines, { id, journal: this.#journal, logger: this.#logger }),
      (file, kept_as) =>
        this.#logger.error({ file, kept_as }, 'the file cannot be read completely; it is kept'),
    )
    return found.toSorted((a, b) => a.at - b.at).map(({ record }) => record)
  }
}

/** Only files with names of the outbox are touched, because the folder may contain others. */
const unfinishedName = /^[0-9a-f-]{36}\.refused\.[0-9a-f-]{36}\.tmp$/

/** The folder of an outbox, for one process at a time. Its files contain bearer keys, so only their owner can read them. */
class OutboxFolder implements JournalFolder {
  readonly path: string
  readonly #options: Partial<FolderLockOptions>
  #lock: FolderLock | undefined

  constructor(folder: string, options: Partial<FolderLockOptions>) {
    this.path = path.resolve(folder)
    this.#options = options
  }

  get isLost(): boolean {
    return this.#lock?.isLost === true
  }

  /** @throws OsmosisError with code `invalid_config` when it is not a writable folder, or another process uses it */
  async open(): Promise<void> {
    try {
      await mkdir(this.path, { recursive: true, mode: 0o700 })
      await access(this.path, constants.R_OK | constants.W_OK | constants.X_OK).catch(
        unlessReadOnly,
      )
      this.#lock = await FolderLock.acquire(this.path, {
        inUse: (owner) =>
          new OsmosisError(
            'invalid_config',
            `${describeOwner(owner)} uses the folder ${this.path}. Give each server a folder of its own.`,
          ),
        takenOver: (owner) =>
          new OsmosisError(
            'storage_error',
            `${describeOwner(owner)} has taken over the folder ${this.path}, because this server's heartbeat was overdue. This server ends and delivers nothing more: the other server delivers the results of its rollouts.`,
          ),
        ...this.#options,
      })
      await this.#removeUnfinished()
    } catch (cause) {
      // The next try must not find this one in its way.
      await this.close()
      if (isOsmosisError(cause)) throw cause
      throw new OsmosisError(
        'invalid_config',
        `The outbox must be a writable folder: ${errorMessage(cause)}`,
        { cause },
      )
    }
  }

  async #removeUnfinished(): Promise<void> {
    // Where this server may not write, another one may be writing them.
    if (!this.#isHeld()) return
    for (const name of await readdir(this.path)) {
      if (unfinishedName.test(name)) await rm(path.join(this.path, name), { force: true })
    }
  }

  #isHeld(): boolean {
    try {
      this.assertHeld()
      return true
    } catch {
      return false
    }
  }

  async close(): Promise<void> {
    await this.#lock?.release()
  }

  assertHeld(): void {
    this.#lock?.assertHeld()
  }

  /** Writes a file; when this resolves it survives the machine. */
  async write(name: string, text: string): Promise<void> {
    this.assertHeld()
    await writeFileAtomically(path.join(this.path, name), text, { mode: 0o600 })
  }
}

/** A disk that has become read-only still contains results to deliver. */
function unlessReadOnly(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EROFS') throw error
}

function describeOwner(owner: LockOwner | undefined): string {
  if (owner === undefined) return 'Another server'
  return `Another server (process ${owner.pid} on host ${owner.host})`
}
