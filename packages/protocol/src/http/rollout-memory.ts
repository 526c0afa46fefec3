import { ReleasingMap } from '@osmosis/core/http'

/** How long and how many ended rollouts are remembered. */
export interface RolloutMemoryLimits {
  /** Milliseconds since the end; default 15 minutes. */
  readonly maxAgeMs?: number | undefined
  /** Default 10 000. The oldest are forgotten first. */
  readonly maxCount?: number | undefined
}

interface Ended<T> {
  readonly id: string
  readonly record: T
  readonly expiresAt: number
  next: Ended<T> | undefined
}

/**
 * Stores a record for each rollout id while the rollout runs, and for a limited time and up to a limited
 * number after it has ended.
 */
export class RolloutMemory<T> {
  readonly #maxAgeMs: number
  readonly #maxCount: number
  readonly #running = new ReleasingMap<string, T>()
  readonly #ended = new Map<string, Ended<T>>()
  /**
   * The next one to be forgotten, in a linked list. A map is ordered as well, but finding its first key
   * skips over everything that was deleted before.
   */
  #oldest: Ended<T> | undefined
  #latest: Ended<T> | undefined

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

  /** Stores a record for as long as the rollout runs. */
  begin(id: string, record: T): void {
    this.#running.set(id, record)
  }

  /**
   * From now on the record is stored for a limited time: the one given here, or else the one given to
   * `begin`. Without either nothing happens.
   *
   * @param ageMs - how long ago it ended; call it in the order of the ends. Milliseconds; default 0
   */
  end(id: string, record: T | undefined = this.#running.get(id), ageMs = 0): void {
    this.#running.delete(id)
    if (record === undefined) return
    const expiresAt = performance.now() + this.#maxAgeMs - ageMs
    const ended: Ended<T> = { id, record, expiresAt, next: undefined }
    this.#ended.set(id, ended)
    if (this.#latest === undefined) this.#oldest = ended
    else this.#latest.next = ended
    this.#latest = ended
    this.#forget()
  }

  /** Forgets a rollout that runs, as if it had not started. */
  drop(id: string): void {
    this.#running.delete(id)
  }

  #forget(): void {
    const now = performance.now()
    for (let oldest = this.#oldest; oldest !== undefined; oldest = oldest.next) {
      const { id, expiresAt } = oldest
      this.#oldest = oldest
      // An id that has ended again has a later entry.
      if (this.#ended.get(id) !== oldest) continue
      if (expiresAt > now && this.#ended.size <= this.#maxCount) return
      this.#ended.delete(id)
    }
    this.#oldest = undefined
    this.#latest = undefined
  }
}
