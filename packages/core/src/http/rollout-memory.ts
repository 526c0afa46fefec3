/** How long and how many ended rollouts are remembered. */
export interface RolloutMemoryLimits {
  /** Milliseconds since the end; default 15 minutes. */
  readonly maxAgeMs?: number | undefined
  /** Default 10 000. The oldest are forgotten first. */
  readonly maxCount?: number | undefined
}

/**
 * A record for each rollout id, for those who ask again or later: kept while the rollout runs, and
 * for a limited time and up to a limited number after it ended.
 */
export class RolloutMemory<T> {
  readonly #maxAgeMs: number
  readonly #maxCount: number
  readonly #running = new Map<string, T>()
  /** In the order of their ends, so the first is always the next to be forgotten. */
  readonly #ended = new Map<string, { readonly record: T; readonly expiresAt: number }>()

  constructor({ maxAgeMs = 15 * 60_000, maxCount = 10_000 }: RolloutMemoryLimits = {}) {
    this.#maxAgeMs = maxAgeMs
    this.#maxCount = maxCount
  }

  /** Number of ended rollouts that are remembered. */
  get endedCount(): number {
    this.#forget()
    return this.#ended.size
  }

  /** The record of a rollout that runs, or else of one that ended not long ago. */
  get(id: string): T | undefined {
    const running = this.#running.get(id)
    if (running !== undefined) return running
    this.#forget()
    return this.#ended.get(id)?.record
  }

  /** Keeps a record for as long as the rollout runs. */
  begin(id: string, record: T): void {
    this.#running.set(id, record)
  }

  /**
   * From now on the record is kept for a limited time only. It is the one given here, or else the
   * one that `begin` was given; without either nothing happens.
   */
  end(id: string, record: T | undefined = this.#running.get(id)): void {
    this.#running.delete(id)
    if (record === undefined) return
    this.#ended.delete(id)
    this.#ended.set(id, { record, expiresAt: performance.now() + this.#maxAgeMs })
    this.#forget()
  }

  /** Forgets a rollout that runs, as if it had not begun. */
  drop(id: string): void {
    this.#running.delete(id)
  }

  #forget(): void {
    const now = performance.now()
    for (const [id, { expiresAt }] of this.#ended) {
      if (expiresAt > now && this.#ended.size <= this.#maxCount) return
      this.#ended.delete(id)
    }
  }
}
