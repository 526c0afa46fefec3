/** So few that they are gone before they get old. */
const most = 100

/**
 * Gathers what is to be counted, and counts it when somebody looks or when there is much of it: counting is
 * cheap while it is done again and again, and several times as dear in the middle of other work.
 */
export class Gathered<T> {
  readonly #count: (one: T) => void
  #gathered: T[] = []

  /** @param count - must not throw */
  constructor(count: (one: T) => void) {
    this.#count = count
  }

  add(one: T): void {
    if (this.#gathered.push(one) >= most) this.count()
  }

  /** To be the `collect` of whatever it is counted in. */
  readonly count = (): void => {
    const gathered = this.#gathered
    this.#gathered = []
    for (const one of gathered) this.#count(one)
  }
}
