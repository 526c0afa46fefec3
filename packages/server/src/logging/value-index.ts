/** Values shorter than this cannot be found. Characters. */
export const shortestValue = 6

/** How often each value was added, by its length. */
type Counts = Map<number, Map<string, number>>

/** Finds any of thousands of values in a text, by their first characters. */
export class ValueIndex {
  /** By the first six characters. */
  readonly #byStart = new Map<string, Counts>()
  /** The most characters that a value has ever had. */
  #longest = 1

  add(value: string): void {
    this.#longest = Math.max(this.#longest, value.length)
    const start = value.slice(0, shortestValue)
    const byLength = this.#byStart.get(start) ?? new Map<number, Map<string, number>>()
    const counts = byLength.get(value.length) ?? new Map<string, number>()
    counts.set(value, (counts.get(value) ?? 0) + 1)
    byLength.set(value.length, counts)
    this.#byStart.set(start, byLength)
  }

  /** Takes back one `add`. */
  delete(value: string): void {
    const start = value.slice(0, shortestValue)
    const byLength = this.#byStart.get(start)
    const counts = byLength?.get(value.length)
    const count = counts?.get(value)
    if (byLength === undefined || counts === undefined || count === undefined) return
    if (count > 1) {
      counts.set(value, count - 1)
      return
    }
    counts.delete(value)
    if (counts.size === 0) byLength.delete(value.length)
    if (byLength.size === 0) this.#byStart.delete(start)
  }

  /** `text` with every value in it replaced; of those that begin at one place, the longest. */
  replaceAll(text: string, replacement: string): string {
    if (this.#byStart.size === 0) return text
    let replaced = ''
    let done = 0
    for (let at = 0; at + shortestValue <= text.length;) {
      const length = this.#lengthAt(text, at)
      if (length > 0) replaced += text.slice(done, at) + replacement
      at += length || 1
      if (length > 0) done = at
    }
    return done === 0 ? text : replaced + text.slice(done)
  }

  /**
   * `text` up to where a value begins that may continue behind its end, which is where it was cut. The last
   * five characters are left out: they may be the beginning of any value.
   */
  withoutStarted(text: string): string {
    const end = Math.max(text.length - shortestValue + 1, 0)
    for (let at = Math.max(text.length - this.#longest, 0); at < end; at += 1) {
      if (this.#begins(text.slice(at))) return text.slice(0, at)
    }
    return text.slice(0, end)
  }

  #begins(rest: string): boolean {
    for (const [length, counts] of this.#byStart.get(rest.slice(0, shortestValue)) ?? []) {
      if (length <= rest.length) continue
      for (const value of counts.keys()) if (value.startsWith(rest)) return true
    }
    return false
  }

  /** The length of the longest value that begins there; 0 when none does. */
  #lengthAt(text: string, at: number): number {
    const byLength = this.#byStart.get(text.slice(at, at + shortestValue))
    let longest = 0
    for (const [length, counts] of byLength ?? []) {
      if (length > longest && counts.has(text.slice(at, at + length))) longest = length
    }
    return longest
  }
}
