import { randomUUID } from 'node:crypto'
import path from 'node:path'

import { errorMessage, type RolloutState } from '@osmosis/core'

import type { Logger } from '../logging/logger.ts'
import { EndedRollouts, type EndedRollout } from './ended-rollouts.ts'
import { OutboxFolder } from './outbox-folder.ts'
import { readRecord, toFirstLine, OutboxRecord, type Acceptance } from './outbox-record.ts'

/** Only files with these names are touched: the folder may hold others. */
const recordName = /^[0-9a-f-]{36}\.jsonl$/
const unfinishedName = /^[0-9a-f-]{36}\.jsonl\.[0-9a-f-]{36}\.tmp$/

/** What earlier processes left behind. */
export interface Leftovers {
  /** Rollouts that are not told in full, in the order in which they were accepted. */
  readonly records: readonly OutboxRecord[]
  /** Those that were, in the order of their ends. */
  readonly ended: readonly EndedRollout[]
}

/**
 * The rollouts of a server on disk, so that they outlive the process: a file each, from its
 * acceptance until all is told.
 */
export class Outbox {
  readonly #folder: OutboxFolder
  readonly #ended: EndedRollouts
  readonly #logger: Logger

  constructor(folder: string, logger: Logger) {
    this.#folder = new OutboxFolder(folder)
    this.#ended = new EndedRollouts(this.#folder)
    this.#logger = logger
  }

  /**
   * Takes the folder for this process and resolves with what earlier ones left behind.
   *
   * @throws OsmosisError with code `invalid_config` when it is no folder, or another process uses it;
   * the error of the file system
   */
  async open(): Promise<Leftovers> {
    await this.#folder.open()
    try {
      return { records: await this.#records(), ended: await this.#ended.read() }
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /**
   * Keeps a rollout that is about to be accepted; when this resolves it survives the process and
   * the machine.
   *
   * @throws the error of the file system; nothing is kept then
   */
  async accept(acceptance: Acceptance): Promise<OutboxRecord> {
    const name = `${randomUUID()}.jsonl`
    await this.#folder.create(name, toFirstLine(acceptance))
    return new OutboxRecord(acceptance, { folder: this.#folder, name, logger: this.#logger })
  }

  /**
   * To be called when a rollout is over. Where everything about it was told, only the memory of it
   * is left; what is still to be told stays.
   *
   * @param state - how it ended, for those who ask
   * @returns whether everything was told
   */
  async finish(record: OutboxRecord, state: RolloutState | undefined): Promise<boolean> {
    if (record.untold.length > 0) return false
    const { rolloutId, key, digest, answer } = record.acceptance
    try {
      // First, so that at no time it is unknown.
      if (answer !== null) await this.#ended.add({ key, digest, answer, state, at: Date.now() })
    } catch (error) {
      const line = { rollout_id: rolloutId, error }
      this.#logger.error(line, `outbox is out of date: ${errorMessage(error)}`)
      return true
    }
    await (record.refused ? record.setAside() : record.remove())
    return true
  }

  /** How many rollouts are kept. NaN when the folder cannot be read. */
  async count(): Promise<number> {
    try {
      const names = await this.#folder.names()
      return names.filter((name) => recordName.test(name)).length
    } catch {
      return Number.NaN
    }
  }

  /** Finishes what was begun, and lets other processes have the folder. */
  async close(): Promise<void> {
    await this.#folder.close()
  }

  async #records(): Promise<OutboxRecord[]> {
    const found: { at: number; record: OutboxRecord }[] = []
    for (const name of await this.#folder.names()) {
      // Never finished, so its rollout was never accepted.
      if (unfinishedName.test(name)) await this.#folder.remove(name)
      if (!recordName.test(name)) continue
      const read = await this.#read(name)
      if (read !== undefined) found.push(read)
    }
    return found.toSorted((a, b) => a.at - b.at).map(({ record }) => record)
  }

  async #read(name: string): Promise<{ at: number; record: OutboxRecord } | undefined> {
    try {
      const text = await this.#folder.read(name)
      const whole = text.slice(0, text.lastIndexOf('\n') + 1)
      const lines = whole.split('\n').slice(0, -1)
      const read = readRecord(lines, { folder: this.#folder, name, logger: this.#logger })
      // The process was killed in the middle of a line, before anybody could see that step.
      if (whole.length < text.length) await this.#folder.cut(name, Buffer.byteLength(whole))
      return read
    } catch {
      // What the parser says quotes the file, keys included.
      const file = path.join(this.#folder.path, name)
      this.#logger.error({ file }, 'no rollout can be read from file; it is left alone')
      return undefined
    }
  }
}
