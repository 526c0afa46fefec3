import path from 'node:path'

import type { ItemEvent } from '../analysis/item-event.ts'
import { readManifest } from './manifest-file.ts'
import { itemKey } from './run-files.ts'
import { FilesOfRun, type RunFolder } from './run-folder.ts'

/** A run with all of its events. */
export interface RunReader extends RunFolder {
  /** The last event of each item that has ended, by `itemKey`; as of the last refresh. */
  readonly events: ReadonlyMap<string, ItemEvent>
  /** The same by row, attempt and model. */
  readonly sortedEvents: readonly ItemEvent[]
  /**
   * Reads what was written since the last time, and resolves with the events among it. A journal that
   * has been replaced, which a new run of the same name does, is read from its beginning.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  refresh(): Promise<readonly ItemEvent[]>
  /** The events of the rollouts in which `text` was said, as `searchIn` finds them. */
  search(text: string, options?: { readonly signal?: AbortSignal }): AsyncGenerator<ItemEvent>
}

/**
 * Opens the run in a folder for reading, and reads its events. Where they need not be kept,
 * `openRunFolder` takes far less memory.
 *
 * @throws OsmosisError with code `damaged_run` when there is no run, or its manifest or a line of its
 * journal cannot be read
 */
export async function openRun(location: string): Promise<RunReader> {
  const reader = new FolderReader(path.resolve(location), await readManifest(location))
  await reader.refresh()
  return reader
}

class FolderReader extends FilesOfRun implements RunReader {
  readonly #journal = this.followJournal()
  #events = new Map<string, ItemEvent>()
  #sorted: readonly ItemEvent[] | undefined
  #refreshing: Promise<readonly ItemEvent[]> | undefined

  get events(): ReadonlyMap<string, ItemEvent> {
    return this.#events
  }

  get sortedEvents(): readonly ItemEvent[] {
    return (this.#sorted ??= [...this.#events.values()].toSorted(
      (a, b) =>
        a.row_index - b.row_index ||
        a.run_index - b.run_index ||
        Number(a.model_tag === 'baseline') - Number(b.model_tag === 'baseline'),
    ))
  }

  async refresh(): Promise<readonly ItemEvent[]> {
    // One after the other: each continues where the one before ended.
    const before = this.#refreshing
    const own = (async () => {
      await before?.catch(() => {
        // Whoever asked for it hears of it.
      })
      return this.#refresh()
    })()
    this.#refreshing = own
    return own
  }

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
