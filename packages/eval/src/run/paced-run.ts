/**
 * How many items run at once, against an endpoint that limits the rate of calls: half as many after a
 * refusal, and one more whenever as many have ended as run at once, up to the most there may be.
 */
export class PacedRun {
  readonly most: number
  #limit: number
  #refusals = 0
  /** Items that have ended since the last refusal, or since the limit was changed. */
  #ended = 0

  constructor(most: number) {
    this.most = most
    this.#limit = most
  }

  /** How many may run at once now. */
  get limit(): number {
    return this.#limit
  }

  /**
   * Whether one more may be started.
   *
   * @param refusals - calls that were refused so far
   */
  hasRoom(running: number, refusals: number): boolean {
    if (refusals > this.#refusals) {
      this.#refusals = refusals
      this.#ended = 0
      // Those that were started before the last change are refused until they have ended.
      if (running <= this.#limit) this.#limit = Math.max(1, Math.floor(this.#limit / 2))
    }
    return running < this.#limit
  }

  itemEnded(): void {
    this.#ended += 1
    if (this.#ended < this.#limit || this.#limit === this.most) return
    this.#limit += 1
    this.#ended = 0
  }
}
