/** Wakes all waiters when something has changed. */
export class WakeUp {
  #next = Promise.withResolvers<void>()

  /** Resolves with the next call of `now`. */
  get next(): Promise<void> {
    return this.#next.promise
  }

  readonly now = (): void => {
    this.#next.resolve()
    this.#next = Promise.withResolvers()
  }
}
