import { statSync, watch, type FSWatcher } from 'node:fs'
import path from 'node:path'

/** Editors write a file in several steps. Milliseconds. */
const settlingMs = 100

/** Watches the folders of files, because editors replace files. */
export class SourceWatcher {
  /** The last known state of each file. */
  readonly #files = new Map<string, string>()
  readonly #folders = new Map<string, FSWatcher>()
  #listener: (() => void) | undefined

  /** @param file - absolute; may not exist */
  add(file: string): void {
    if (this.#files.has(file)) return
    this.#files.set(file, stateOf(file))
    this.#watch(path.dirname(file))
  }

  /**
   * Resolves when a file has changed.
   *
   * @param any - whether a change of another file in the folders counts, e.g. because one was missing
   * @throws the reason of `signal`
   */
  async nextChange(signal: AbortSignal, any: () => boolean): Promise<void> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const onAbort = (): void => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    let timer: ReturnType<typeof setTimeout> | undefined
    this.#listener = () => {
      clearTimeout(timer)
      timer = setTimeout(() => {
        if (this.#takeChanges() || any()) resolve()
      }, settlingMs)
    }
    // A file may have changed before this call.
    if (this.#takeChanges()) resolve()
    try {
      await promise
    } finally {
      clearTimeout(timer)
      this.#listener = undefined
      signal.removeEventListener('abort', onAbort)
    }
  }

  close(): void {
    for (const watcher of this.#folders.values()) watcher.close()
    this.#folders.clear()
  }

  #takeChanges(): boolean {
    let hasChanged = false
    for (const [file, before] of this.#files) {
      const now = stateOf(file)
      if (now === before) continue
      this.#files.set(file, now)
      hasChanged = true
    }
    return hasChanged
  }

  #watch(folder: string): void {
    if (this.#folders.has(folder)) return
    try {
      const watcher = watch(folder, () => this.#listener?.())
      this.#folders.set(folder, watcher)
      watcher.on('error', () => {
        watcher.close()
        this.#folders.delete(folder)
      })
    } catch {
      // The folder does not exist.
    }
  }
}

function stateOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false })
  return found === undefined ? '' : `${found.ino} ${found.size} ${found.mtimeMs}`
}
