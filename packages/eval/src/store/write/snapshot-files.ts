import { readFileSync } from 'node:fs'

import { writeFileAtomically, type FolderLock } from '@osmosis/protocol/files'

import { fileMode, runFiles, storageError } from '../run-files.ts'

/** Results of a run so far, as texts for readers of files. The journal is authoritative. */
export interface RunSnapshots {
  /** The text of `index.jsonl`, or its pieces: at 100,000 items it has 30 MB. */
  readonly index: string | Iterable<string | Uint8Array>
  /** The text of `metrics.json`. */
  readonly metrics: string
  /** The text of `progress.json`. */
  readonly progress: string
}

/** Keeps the snapshots of a run up to date, in at most a twentieth of the time. */
export class SnapshotFiles {
  readonly #files: Readonly<Record<keyof RunSnapshots, string>>
  readonly #lock: FolderLock
  readonly #intervalMs: number
  readonly #startedAt = performance.now()
  #nextRefreshAt = 0
  /** How long all refreshes took, and the last one. Milliseconds. */
  #spentMs = 0
  #lastMs = 0
  #writing: Promise<void> | undefined

  constructor(location: string, lock: FolderLock, intervalMs: number) {
    this.#files = runFiles(location)
    this.#lock = lock
    this.#intervalMs = intervalMs
  }

  /** Writes them if they are due; `texts` is called only then. */
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
      // The next refresh may take twice as long and must stay within a twentieth of the time.
      const affordableAt = this.#startedAt + 20 * (this.#spentMs + 2 * this.#lastMs)
      this.#nextRefreshAt = Math.max(now + this.#intervalMs, affordableAt)
    }
  }

  /** Writes them now, after a refresh in progress. */
  async write(texts: () => RunSnapshots): Promise<void> {
    await this.#writing?.catch(() => {
      // Reported to the caller of that refresh.
    })
    await this.#writeAll(texts())
  }

  async #writeAll(texts: RunSnapshots): Promise<void> {
    for (const name of ['index', 'metrics', 'progress'] as const) {
      const file = this.#files[name]
      try {
        this.#lock.assertHeld()
        await writeFileAtomically(file, texts[name], { mode: fileMode, sync: 'file' })
      } catch (cause) {
        throw await storageError(file, cause)
      }
    }
  }
}

/** How long the earlier processes of a run worked on it. Milliseconds; 0 when unknown. */
export function readEarlierDuration(location: string): number {
  try {
    const progress = JSON.parse(readFileSync(runFiles(location).progress, 'utf8')) as {
      duration_ms?: unknown
    }
    return Number(progress.duration_ms) || 0
  } catch {
    // A run that was killed before its first snapshot has no file.
    return 0
  }
}
