import type { Stats } from 'node:fs'
import { stat } from 'node:fs/promises'

import { isOsmosisError } from '@osmosis/core'

import type { ItemEvent } from '../analysis/item-event.ts'
import { type JournalPosition, readJournal } from './journal.ts'
import { damagedRun, runFiles } from './run-files.ts'

/** Who is given the events of a journal. */
export interface JournalVisitor {
  /** The journal is read from its beginning: what was given before does not count. */
  begin(): void
  /** The next event, and where its line is; the last one of an item counts. */
  take(event: ItemEvent, place: JournalPlace): void
}

/** A line of a journal. */
export interface JournalPlace {
  /** Bytes. */
  readonly offset: number
  /** With its newline. Bytes. */
  readonly length: number
}

const start: JournalPosition = { offset: 0, line: 0 }

/** Reads a journal piece by piece while it grows, and keeps no event. */
export class JournalFollower {
  readonly #location: string
  #position = start
  /** Which file the journal was. */
  #id: string | undefined

  constructor(location: string) {
    this.#location = location
  }

  /**
   * Gives what was written since the last time. A journal that has been replaced, which a new run of the
   * same name does, is given from its beginning. One call at a time.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  async read(visitor: JournalVisitor): Promise<void> {
    const journal = await this.#stat()
    // Numbers of files are given again.
    const id = `${journal.dev}:${journal.ino}:${journal.birthtimeMs}`
    const isReplaced = id !== this.#id || journal.size < this.#position.offset
    this.#id = id
    if (isReplaced) return this.#readAgain(visitor)
    if (journal.size === this.#position.offset) return
    try {
      await this.#readOn(visitor)
    } catch (error) {
      // A writer on a full disk takes back lines that it could not make durable. Whoever read them
      // before that is now in the middle of another line.
      if (!isOsmosisError(error) || error.code !== 'damaged_run') throw error
      await this.#readAgain(visitor)
    }
  }

  #readAgain(visitor: JournalVisitor): Promise<void> {
    this.#position = start
    visitor.begin()
    return this.#readOn(visitor)
  }

  async #readOn(visitor: JournalVisitor): Promise<void> {
    for await (const [event, after] of readJournal(
      runFiles(this.#location).journal,
      this.#position,
    )) {
      const { offset } = this.#position
      this.#position = after
      visitor.take(event, { offset, length: after.offset - offset })
    }
  }

  async #stat(): Promise<Stats> {
    try {
      return await stat(runFiles(this.#location).journal)
    } catch (cause) {
      throw damagedRun(`The run ${this.#location} has no events.jsonl.`, cause)
    }
  }
}
