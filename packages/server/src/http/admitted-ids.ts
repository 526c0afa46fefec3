/** Maximum number of ids that are listed: a server may run for months. */
const mostIds = 100_000

/** The ids of the last rollouts that a server accepted, 100 000 of them. */
export class AdmittedIds {
  readonly #ids = new Set<string>()

  /** In the order of their acceptance. */
  get all(): string[] {
    return [...this.#ids].slice(-mostIds)
  }

  add(rolloutId: string): void {
    this.#ids.add(rolloutId)
    // Deletes many at once: finding the first entry of a set skips all entries deleted before it.
    let surplus = this.#ids.size - mostIds
    if (surplus < mostIds / 10) return
    for (const oldest of this.#ids) {
      this.#ids.delete(oldest)
      surplus -= 1
      if (surplus === 0) return
    }
  }
}
