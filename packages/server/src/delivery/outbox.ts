import { randomUUID } from 'node:crypto'

import { errorMessage, OsmosisError } from '@osmosis/core'
import type { RolloutState } from '@osmosis/runtime'

import type { Logger } from '../logging/logger.ts'
import { EndedRollouts, type RememberedRollout } from './ended-rollouts.ts'
import type { FolderLockOptions } from './folder-lock.ts'
import { OutboxFolder } from './outbox-folder.ts'
import { OutboxJournal } from './outbox-journal.ts'
import { toEntry, toFirstLine, type OutboxAcceptance } from './outbox-lines.ts'
import { readRecord, OutboxRecord } from './outbox-record.ts'

/** What earlier processes left behind. */
export interface Leftovers {
  /** Rollouts that are not told in full, in the order in which they were accepted. */
  readonly records: readonly OutboxRecord[]
  /** Those that were, in the order of their ends. */
  readonly ended: readonly RememberedRollout[]
}

/**
 * The rollouts of a server on disk, so that they outlive the process: a record each, from its
 * acceptance until all is told.
 */
export class Outbox {
  readonly #folder: OutboxFolder
  readonly #journal: OutboxJournal
  readonly #ended: EndedRollouts
  readonly #logger: Logger

  constructor(folder: string, logger: Logger, lock: Omit<FolderLockOptions, 'onWaiting'> = {}) {
    this.#folder = new OutboxFolder(folder, {
      ...lock,
      onWaiting: (owner, patienceMs) =>
        logger.warn(
          { folder, wait_seconds: patienceMs / 1000 },
          `${owner} may still use the outbox: waiting until it shows that it lives, or the time is up`,
        ),
    })
    this.#journal = new OutboxJournal(this.#folder, (what, error) => {
      // That another process has the folder was said once.
      if (!this.#folder.isLost) logger.error({ error }, `${what}: ${errorMessage(error)}`)
    })
    this.#ended = new EndedRollouts(this.#folder)
    this.#logger = logger
  }

  /** How many rollouts are kept. */
  get count(): number {
    return this.#journal.count
  }

  /**
   * Takes the folder for this process and resolves with what earlier ones left behind.
   *
   * @throws OsmosisError with code `invalid_config` when it is no folder that can be written to,
   * another process uses it, or what is in it cannot be read
   */
  async open(): Promise<Leftovers> {
    await this.#folder.open()
    try {
      return { records: await this.#records(), ended: await this.#ended.read() }
    } catch (error) {
      await this.close()
      const why = `What is in the outbox ${this.#folder.path} cannot be read: ${errorMessage(error)}`
      throw new OsmosisError('invalid_config', why, { cause: error })
    }
  }

  /**
   * Keeps a rollout that is about to be accepted; when this resolves it survives the process and
   * the machine.
   *
   * @throws the error of the file system; nothing is kept then
   */
  async accept(acceptance: OutboxAcceptance): Promise<OutboxRecord> {
    const id = randomUUID()
    await this.#journal.accept(id, toFirstLine(id, acceptance))
    return new OutboxRecord(acceptance, { id, journal: this.#journal, logger: this.#logger })
  }

  /**
   * To be called when a rollout is over. Where everything about it was told, only the memory of it
   * is left, and what its receiver refused for good, for people; what is still to be told stays.
   *
   * @param state - how it ended, for those who ask
   * @returns whether everything was told
   */
  async finish(record: OutboxRecord, state: RolloutState | undefined): Promise<boolean> {
    if (record.undelivered.length > 0) return false
    const { rolloutId, key, digest, answer } = record.acceptance
    try {
      // First, so that at no time it is unknown.
      if (answer !== null) await this.#ended.add({ key, digest, answer, state, at: Date.now() })
      if (record.refused.length > 0) await this.#setAside(record)
    } catch (error) {
      if (this.#folder.isLost) return true
      const line = { rollout_id: rolloutId, error }
      this.#logger.error(line, `outbox is out of date: ${errorMessage(error)}`)
      return true
    }
    await record.remove()
    return true
  }

  /** Finishes what was started, and lets other processes have the folder. */
  async close(): Promise<void> {
    await this.#ended.close()
    await this.#journal.close()
    await this.#folder.close()
  }

  async #setAside({ id, acceptance: { rolloutId }, refused }: OutboxRecord): Promise<void> {
    const callbacks = refused.map(toEntry)
    const text = JSON.stringify({ rollout_id: rolloutId, refused: callbacks }, undefined, 2)
    await this.#folder.setAside(id, `${text}\n`)
  }

  async #records(): Promise<OutboxRecord[]> {
    const found = await this.#journal.open(
      ({ record: { id }, lines }) =>
        readRecord(lines, { id, journal: this.#journal, logger: this.#logger }),
      (file) => this.#logger.error({ file }, 'not all of file can be read; it is left alone'),
    )
    return found.toSorted((a, b) => a.at - b.at).map(({ record }) => record)
  }
}
