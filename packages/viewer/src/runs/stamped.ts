import { statSync } from 'node:fs'

/** Changes when the file does. A file that this user may not see has one as well: whoever reads it says what is wrong. */
export function fileStamp(file: string): string {
  try {
    const found = statSync(file, { throwIfNoEntry: false })
    return `${found?.ino ?? ''}:${found?.size ?? ''}:${found?.mtimeMs ?? ''}`
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code)
  }
}

/** A value that is read again only when its stamp has changed, or when reading it has failed. */
export class Stamped<T> {
  #known: { readonly stamp: string; readonly value: T } | undefined

  get(stamp: string, read: () => T): T {
    if (this.#known?.stamp === stamp) return this.#known.value
    const known = { stamp, value: read() }
    this.#known = known
    if (known.value instanceof Promise) {
      known.value.catch(() => {
        if (this.#known === known) this.#known = undefined
      })
    }
    return known.value
  }
}
