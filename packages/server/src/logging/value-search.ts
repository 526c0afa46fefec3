/** Values shorter than this cannot be searched for. Characters. */
export const shortestValue = 6
/** Characters that are looked at together. */
const block = 3
const farthest = shortestValue - block + 1
const hashes = 0x4_00_00
/** The table is made anew when it has this many entries of values that are gone. */
const mostStale = 10_000

/** The values of one beginning and one length: how often each was added. */
interface Alike {
  readonly length: number
  readonly values: Map<string, number>
  /** Of their last characters, in which keys with one beginning differ. */
  readonly ends: Set<number>
}

/**
 * Finds any of many values in long texts, in one pass that looks at every fourth place where nothing
 * is found: the multi-pattern search of Wu and Manber, "A fast algorithm for multi-pattern searching"
 * (TR 94-17, University of Arizona, 1994), over blocks of three characters.
 */
export class ValueSearch {
  /** By the hash of a block: how far the first six characters of the next value are away at least. */
  readonly #shifts = new Uint8Array(hashes).fill(farthest)
  /** By their first six characters, the longest first. */
  readonly #byStart = new Map<string, Alike[]>()
  #stale = 0
  /** No value has ever been longer. Characters. */
  #longest = 1

  add(value: string): void {
    const { length } = value
    this.#longest = Math.max(this.#longest, length)
    const start = value.slice(0, shortestValue)
    const begun = this.#byStart.get(start) ?? []
    let alike = begun.find((one) => one.length === length)
    if (alike === undefined) {
      alike = { length, values: new Map(), ends: new Set() }
      begun.push(alike)
      begun.sort((a, b) => b.length - a.length)
    }
    alike.values.set(value, (alike.values.get(value) ?? 0) + 1)
    alike.ends.add(hashOf(value, length - block))
    if (this.#byStart.has(start)) return
    this.#byStart.set(start, begun)
    this.#enter(start)
  }

  /** Takes back one `add`. */
  delete(value: string): void {
    const start = value.slice(0, shortestValue)
    const begun = this.#byStart.get(start) ?? []
    const alike = begun.find(({ length }) => length === value.length)
    const count = alike?.values.get(value)
    if (alike === undefined || count === undefined) return
    if (count > 1) {
      alike.values.set(value, count - 1)
      return
    }
    alike.values.delete(value)
    if (alike.values.size === 0) begun.splice(begun.indexOf(alike), 1)
    if (begun.length === 0) this.#drop(start)
  }

  /** `text` with every value in it replaced; of those that begin at one place, the longest. */
  replaceAll(text: string, replacement: string): string {
    if (this.#byStart.size === 0) return text
    let replaced = ''
    let done = 0
    let at = 0
    while (at + shortestValue <= text.length) {
      const shift = this.#shifts[hashOf(text, at + shortestValue - block)] ?? 0
      const length = shift > 0 ? 0 : this.#lengthAt(text, at)
      if (length === 0) {
        at += shift || 1
        continue
      }
      replaced += text.slice(done, at) + replacement
      at += length
      done = at
    }
    return done === 0 ? text : replaced + text.slice(done)
  }

  /**
   * `text` up to where a value begins that may go on behind its end, which is where it was cut. Of values
   * that have only just begun, up to five characters are not looked for but left out.
   */
  withoutBegun(text: string): string {
    const end = Math.max(text.length - shortestValue + 1, 0)
    for (let at = Math.max(text.length - this.#longest, 0); at < end; at += 1) {
      if (this.#begins(text.slice(at))) return text.slice(0, at)
    }
    return text.slice(0, end)
  }

  #begins(rest: string): boolean {
    for (const { length, values } of this.#byStart.get(rest.slice(0, shortestValue)) ?? []) {
      if (length <= rest.length) continue
      for (const value of values.keys()) if (value.startsWith(rest)) return true
    }
    return false
  }

  /** How long the value is that begins there; 0 when none does. */
  #lengthAt(text: string, at: number): number {
    const begun = this.#byStart.get(text.slice(at, at + shortestValue))
    if (begun === undefined) return 0
    for (const { length, values, ends } of begun) {
      if (!ends.has(hashOf(text, at + length - block))) continue
      if (values.has(text.slice(at, at + length))) return length
    }
    return 0
  }

  #enter(start: string): void {
    for (let from = 0; from < farthest; from += 1) {
      const hash = hashOf(start, from)
      this.#shifts[hash] = Math.min(this.#shifts[hash] ?? 0, farthest - 1 - from)
    }
  }

  // An entry of the table may belong to several starts, so it stays: it costs time, and hides nothing.
  #drop(start: string): void {
    this.#byStart.delete(start)
    this.#stale += 1
    if (this.#stale < mostStale) return
    this.#stale = 0
    this.#shifts.fill(farthest)
    for (const kept of this.#byStart.keys()) this.#enter(kept)
  }
}

/** Of the three characters there; behind the end of the text, of none. */
function hashOf(text: string, at: number): number {
  const first = text.charCodeAt(at)
  const hash = first ^ (text.charCodeAt(at + 1) << 6) ^ (text.charCodeAt(at + 2) << 12)
  return hash & (hashes - 1)
}
