import { beginningOf, cutEnd, errorTextBytes, secretForms } from '@osmosis/core/http'
import { LRUCache } from 'lru-cache'

const redacted = '[redacted]'

/** Shorter secrets are ordinary words, and redacting them would garble the text. Characters. */
export const shortestSecret = 6

/**
 * The secrets that a process received, and their removal from text. It searches by value: a secret also
 * appears where no field name marks it, such as in the message of a foreign error. Secrets shorter than
 * {@link shortestSecret} are not removed.
 */
export class SecretValues {
  readonly #uses = new Map<string, number>()
  readonly #hidden = new Set<string>()
  readonly #index = new ValueIndex()
  /** Made when a secret is released: the cache reserves room for all of its entries, which costs a process a millisecond. */
  #recent: LRUCache<string, true> | undefined

  /** Hides `secrets` from now on; null and empty ones are ignored. Returns a function that ends their use. */
  add(...secrets: readonly (string | null | undefined)[]): () => void {
    const used = secrets.filter(
      (secret): secret is string => typeof secret === 'string' && secret.length >= shortestSecret,
    )
    for (const secret of used) {
      this.#uses.set(secret, (this.#uses.get(secret) ?? 0) + 1)
      this.#hide(secret)
    }
    return () => {
      for (const secret of used.splice(0)) this.#release(secret)
    }
  }

  /** `text` without the secrets in it, in any of their forms. */
  redact(text: string): string {
    return this.#index.replaceAll(text, redacted)
  }

  /**
   * The text of an error for output: without secrets, and only its beginning. Half of a character, which a cut of this or
   * other code may have left, becomes U+FFFD, because strict readers refuse JSON that has one.
   *
   * @param maxBytes - bytes of UTF-8; default 8 KiB
   */
  redactError(text: string, maxBytes: number = errorTextBytes): string {
    // Only the part that is returned is searched.
    const started = beginningOf(text, maxBytes)
    const end = cutEnd(started)
    const clean =
      end === undefined
        ? this.redact(started)
        : // The cut may have left a part of a key, which the search for whole keys misses.
          this.#index.withoutPartialEnd(this.redact(started.slice(0, -end.length))) + end
    return beginningOf(clean, maxBytes).toWellFormed()
  }

  /** Length of the beginning of `text` that is the same whatever follows: a secret may be complete only then. */
  settledLength(text: string): number {
    return this.#index.settledLength(text)
  }

  #release(secret: string): void {
    const uses = (this.#uses.get(secret) ?? 1) - 1
    if (uses > 0) {
      this.#uses.set(secret, uses)
      return
    }
    this.#uses.delete(secret)
    this.#recent ??= this.#makeRecent()
    this.#recent.set(secret, true)
  }

  /** Late messages of an ended rollout may still contain its keys: unhandled rejections, its status. */
  #makeRecent(): LRUCache<string, true> {
    return new LRUCache({
      max: 10_000,
      ttl: 16 * 60_000,
      dispose: (_, secret, reason) => {
        if (reason !== 'set' && !this.#uses.has(secret)) this.#unhide(secret)
      },
    })
  }

  #hide(secret: string): void {
    if (this.#hidden.has(secret)) return
    this.#hidden.add(secret)
    for (const form of secretForms(secret, shortestSecret)) this.#index.add(form)
  }

  #unhide(secret: string): void {
    this.#hidden.delete(secret)
    for (const form of secretForms(secret, shortestSecret)) this.#index.delete(form)
  }
}

/** How often each value was added, by its length. */
type Counts = Map<number, Map<string, number>>

/** Finds any of thousands of values in a text, by their first characters. */
class ValueIndex {
  /** By the first six characters. */
  readonly #byStart = new Map<string, Counts>()
  /** Length of the longest value so far. */
  #longest = 1

  add(value: string): void {
    this.#longest = Math.max(this.#longest, value.length)
    const start = value.slice(0, shortestSecret)
    const byLength = this.#byStart.get(start) ?? new Map<number, Map<string, number>>()
    const counts = byLength.get(value.length) ?? new Map<string, number>()
    counts.set(value, (counts.get(value) ?? 0) + 1)
    byLength.set(value.length, counts)
    this.#byStart.set(start, byLength)
  }

  /** Reverts one `add`. */
  delete(value: string): void {
    const start = value.slice(0, shortestSecret)
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

  /** Replaces every value in `text`; of several that start at the same position, the longest. */
  replaceAll(text: string, replacement: string): string {
    if (this.#byStart.size === 0) return text
    let replaced = ''
    let done = 0
    for (let at = 0; at + shortestSecret <= text.length;) {
      const length = this.#lengthAt(text, at)
      if (length > 0) replaced += text.slice(done, at) + replacement
      at += length || 1
      if (length > 0) done = at
    }
    return done === 0 ? text : replaced + text.slice(done)
  }

  /**
   * Cuts `text`, which is the beginning of a longer text, before a value that may continue after its end. The last
   * five characters are always removed: they may be the beginning of any value.
   */
  withoutPartialEnd(text: string): string {
    const end = Math.max(text.length - shortestSecret + 1, 0)
    for (let at = Math.max(text.length - this.#longest, 0); at < end; at += 1) {
      if (this.#begins(text.slice(at))) return text.slice(0, at)
    }
    return text.slice(0, end)
  }

  /** Length of the text before a value whose rest may follow. */
  settledLength(text: string): number {
    let end = Math.max(text.length - this.#longest, 0)
    while (end < text.length && !this.#begins(text.slice(end))) end += 1
    for (let at = 0; at < end;) {
      const length = this.#lengthAt(text, at)
      // A complete value is not split for another one that may follow.
      if (at + length > end) return at
      at += length || 1
    }
    return end
  }

  #begins(rest: string): boolean {
    if (rest.length < shortestSecret) {
      return [...this.#byStart.keys()].some((start) => start.startsWith(rest))
    }
    for (const [length, counts] of this.#byStart.get(rest.slice(0, shortestSecret)) ?? []) {
      if (length <= rest.length) continue
      for (const value of counts.keys()) if (value.startsWith(rest)) return true
    }
    return false
  }

  /** The length of the longest value that starts at this position; 0 when none does. */
  #lengthAt(text: string, at: number): number {
    const byLength = this.#byStart.get(text.slice(at, at + shortestSecret))
    let longest = 0
    for (const [length, counts] of byLength ?? []) {
      if (length > longest && counts.has(text.slice(at, at + length))) longest = length
    }
    return longest
  }
}
