import { statSync, watch, type FSWatcher } from 'node:fs'
import path from 'node:path'

/** Editors write a file in several steps. Milliseconds. */
const settlingMs = 100

/** Watches files by their folders, because editors replace files by others of the same name. */
export class SourceWatcher {
  /** What each file was when it was added, or was changed last. */
  readonly #files = new Map<string, string>()
  readonly #folders = new Map<string, FSWatcher>()
  #listener: (() => void) | undefined

  /** @param file - absolute; need not be there */
  add(file: string): void {
    if (this.#files.has(file)) return
    this.#files.set(file, stateOf(file))
    this.#watch(path.dirname(file))
  }

  /**
   * Resolves when a file is not what it was.
   *
   * @param any - also when another file in the folders is: one may be there that was missing
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
    // It may have been saved before anybody listened.
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
      // A folder that is not there has nothing to watch.
    }
  }
}

function stateOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false })
  return found === undefined ? '' : `${found.ino} ${found.size} ${found.mtimeMs}`
}
