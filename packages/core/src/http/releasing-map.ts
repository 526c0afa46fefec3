/** Emptied when its entry is deleted. */
interface Cell<V> {
  value: V | undefined
}

/**
 * A map for large values of which thousands come and go. V8 moves a `Map` to a new table when entries come and
 * go. The old table refers to everything it held, and only a full garbage collection frees it once it is old:
 * values of a plain `Map` would stay in memory that long after they were deleted.
 */
export class ReleasingMap<K, V> {
  readonly #cells = new Map<K, Cell<V>>()

  get(key: K): V | undefined {
    return this.#cells.get(key)?.value
  }

  set(key: K, value: V): void {
    this.delete(key)
    this.#cells.set(key, { value })
  }

  delete(key: K): boolean {
    const cell = this.#cells.get(key)
    if (cell === undefined) return false
    cell.value = undefined
    return this.#cells.delete(key)
  }

  keys(): MapIterator<K> {
    return this.#cells.keys()
  }

  *values(): Generator<V> {
    for (const { value } of this.#cells.values()) yield value as V
  }
}
