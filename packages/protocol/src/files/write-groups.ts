interface WaitingItem<T> {
  readonly item: T
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Passes items to `write` in groups, one group after the other. Items that arrive during a write belong to
 * the next group. A disk with two hundred syncs per second can so store thousands of lines per second.
 */
export class WriteGroups<T> {
  readonly #write: (group: readonly T[]) => Promise<void>
  readonly #sizeOf: (item: T) => number
  readonly #maxSize: number
  #waiting: WaitingItem<T>[] = []
  #running: Promise<void> | undefined

  /** @param maxSize - a group of this size gets no further item */
  constructor(
    write: (group: readonly T[]) => Promise<void>,
    sizeOf: (item: T) => number,
    maxSize: number,
  ) {
    this.#write = write
    this.#sizeOf = sizeOf
    this.#maxSize = maxSize
  }

  /** Resolves or rejects with the write of the item's group. */
  async add(item: T): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      this.#running ??= this.#run()
    })
  }

  /** Resolves when no item waits. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await this.#running
  }

  async #run(): Promise<void> {
    // Items of the same turn of the event loop belong to one group.
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
    const end = this.#waiting.findIndex(({ item }) => {
      if (size >= this.#maxSize) return true
      size += this.#sizeOf(item)
      return false
    })
    return end === -1 ? this.#waiting.length : end
  }
}
