/** What the map holds of an entry. It is emptied with it. */
interface Held<V> {
  value: V | undefined
}

/**
 * A map for what comes and goes by the thousand and is large. V8 moves a `Map` that entries come to and go
 * from into a new table again and again. The old table refers to the new one and to what it held, and only a
 * full garbage collection frees it once it is old: whatever was in a plain `Map` at such a time stays in
 * memory as long, however long ago it was deleted.
 */
export class ReleasingMap<K, V> {
  readonly #held = new Map<K, Held<V>>()

  get(key: K): V | undefined {
    return this.#held.get(key)?.value
  }

  set(key: K, value: V): void {
    this.delete(key)
    this.#held.set(key, { value })
  }

  delete(key: K): boolean {
    const held = this.#held.get(key)
    if (held === undefined) return false
    held.value = undefined
    return this.#held.delete(key)
  }

  keys(): MapIterator<K> {
    return this.#held.keys()
  }

  *values(): Generator<V> {
    for (const { value } of this.#held.values()) yield value as V
  }
}
