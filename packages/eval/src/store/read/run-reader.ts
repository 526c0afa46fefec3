import path from 'node:path'

import { type ItemEvent, itemKey } from '../../analysis/records/item-event.ts'
import { readManifest } from '../manifest-file.ts'
import { compareEvents } from '../run-files.ts'
import { RunFolder } from './run-folder.ts'

/**
 * Opens the run in a folder for reading, and reads its events. `openRunFolder` needs far less memory where
 * the events need not be held.
 *
 * @throws OsmosisError with code `damaged_run` when there is no run, or its manifest or a line of its
 * journal cannot be read
 */
export async function openRun(location: string): Promise<RunReader> {
  const reader = new RunReader(path.resolve(location), await readManifest(location))
  await reader.refresh()
  return reader
}

/** A run with all of its events. */
export class RunReader extends RunFolder {
  readonly #journal = this.followJournal()
  #events = new Map<string, ItemEvent>()
  #sorted: readonly ItemEvent[] | undefined
  #refreshing: Promise<unknown> = Promise.resolve()

  /** The last event of each item that has ended, by `itemKey`; as of the last refresh. */
  get events(): ReadonlyMap<string, ItemEvent> {
    return this.#events
  }

  /** The same by row, attempt and model. */
  get sortedEvents(): readonly ItemEvent[] {
    return (this.#sorted ??= [...this.#events.values()].toSorted(compareEvents))
  }

  /**
   * Reads what was written since the last call, and resolves with the new events. A replaced journal, as
   * when a new run takes the same name, is read from its beginning.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  async refresh(): Promise<readonly ItemEvent[]> {
    // One after the other: each continues where the previous one ended.
    const read = this.#refreshing.then(() => this.#refresh())
    this.#refreshing = read.catch(() => {
      // Reported to the caller that started it.
    })
    return read
  }

  /** The events of the rollouts whose conversations contain `text`, as `searchIn` finds them. */
  search(text: string, options?: { readonly signal?: AbortSignal }): AsyncGenerator<ItemEvent> {
    return this.searchIn(this.#events.values(), text, options)
  }

  async #refresh(): Promise<readonly ItemEvent[]> {
    await this.refreshManifest()
    let read: ItemEvent[] = []
    await this.#journal.read({
      begin: () => {
        this.#events = new Map()
        this.#sorted = undefined
        read = []
      },
      take: (event) => {
        this.#events.set(itemKey(event), event)
        this.#sorted = undefined
        read.push(event)
      },
    })
    return read
  }
}
