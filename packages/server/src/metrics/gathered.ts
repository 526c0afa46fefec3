/** Batches this small are garbage before V8 promotes them. */
const batchSize = 100

/**
 * Collects what is to be counted, and counts it at a scrape or when a batch is full: counting is cheap in a
 * loop, and costs several times as much between other work.
 */
export class Gathered<T> {
  readonly #count: (one: T) => void
  #gathered: T[] = []

  /** @param count - must not throw */
  constructor(count: (one: T) => void) {
    this.#count = count
  }

  add(one: T): void {
    if (this.#gathered.push(one) >= batchSize) this.count()
  }

  /** Pass it as `collect` of the metrics that count. */
  readonly count = (): void => {
    const gathered = this.#gathered
    this.#gathered = []
    for (const one of gathered) this.#count(one)
  }
}
