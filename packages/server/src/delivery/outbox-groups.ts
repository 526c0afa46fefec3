interface Waiting<T> {
  readonly item: T
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Hands items to `write` in groups, one group after the other: whatever comes while a group is written
 * is in the next one. A disk that syncs two hundred times a second so keeps thousands of lines in that time.
 */
export class WriteGroups<T> {
  readonly #write: (group: readonly T[]) => Promise<void>
  readonly #sizeOf: (item: T) => number
  readonly #most: number
  #waiting: Waiting<T>[] = []
  #running: Promise<void> | undefined

  /** @param most - a group takes no further item when those in it have this size together */
  constructor(
    write: (group: readonly T[]) => Promise<void>,
    sizeOf: (item: T) => number,
    most: number,
  ) {
    this.#write = write
    this.#sizeOf = sizeOf
    this.#most = most
  }

  /** Resolves, or rejects, as the group of the item does. */
  async add(item: T): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      this.#running ??= this.#run()
    })
  }

  /** Resolves when nothing waits. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await this.#running
  }

  async #run(): Promise<void> {
    // What is added in the same turn of the event loop belongs to one group.
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, this.#nextLength())
      try {
        await this.#write(group.map(({ item }) => item))
        for (const { resolve } of group) resolve()
      } catch (error) {
        for (const { reject } of group) reject(error)
      }
    }
    this.#running = undefined
  }

  #nextLength(): number {
    let size = 0
    const past = this.#waiting.findIndex(({ item }) => {
      if (size >= this.#most) return true
      size += this.#sizeOf(item)
      return false
    })
    return past === -1 ? this.#waiting.length : past
  }
}
