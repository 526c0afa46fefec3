import { writeFileAtomically } from '@osmosis/runtime/files'

import { fileMode, runFiles } from './run-files.ts'
import { storageError } from './storage-error.ts'

/** What a run comes to so far, as texts for those who read files. The journal decides. */
export interface RunSnapshots {
  /** The text of `index.jsonl`, or its pieces: at 100,000 items it has 30 MB. */
  readonly index: string | Iterable<string | Uint8Array>
  /** The text of `metrics.json`. */
  readonly metrics: string
  /** The text of `progress.json`. */
  readonly progress: string
}

/** Keeps the snapshots of a run up to date, in a twentieth of the time at most. */
export class SnapshotFiles {
  readonly #files: Readonly<Record<keyof RunSnapshots, string>>
  readonly #intervalMs: number
  readonly #startedAt = performance.now()
  #nextRefreshAt = 0
  /** What refreshes have taken so far, and the last of them. Milliseconds. */
  #spentMs = 0
  #lastMs = 0
  #writing: Promise<void> | undefined

  constructor(location: string, intervalMs: number) {
    this.#files = runFiles(location)
    this.#intervalMs = intervalMs
  }

  /** Writes them if it is time to; `texts` is called only then. */
  async refresh(texts: () => RunSnapshots): Promise<void> {
    const startedAt = performance.now()
    if (this.#writing !== undefined || startedAt < this.#nextRefreshAt) return
    try {
      this.#writing = this.#writeAll(texts())
      await this.#writing
    } finally {
      this.#writing = undefined
      const now = performance.now()
      this.#lastMs = now - startedAt
      this.#spentMs += this.#lastMs
      // When another one still leaves it at a twentieth of all the time. With more items it takes longer.
      const affordableAt = this.#startedAt + 20 * (this.#spentMs + 2 * this.#lastMs)
      this.#nextRefreshAt = Math.max(now + this.#intervalMs, affordableAt)
    }
  }

  /** Writes them now, after those that are being written. */
  async write(texts: () => RunSnapshots): Promise<void> {
    await this.#writing?.catch(() => {
      // Whoever refreshed them hears of it.
    })
    await this.#writeAll(texts())
  }

  async #writeAll(texts: RunSnapshots): Promise<void> {
    for (const name of ['index', 'metrics', 'progress'] as const) {
      const file = this.#files[name]
      try {
        await writeFileAtomically(file, texts[name], { mode: fileMode, sync: 'file' })
      } catch (cause) {
        throw await storageError(file, cause)
      }
    }
  }
}
