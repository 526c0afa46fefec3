import type { DeliveredLease, LeasedEnd } from '@osmosis/server/protocols'

import type { RolloutRecord } from '../records/rollout-record.ts'

/** The end of a lease that is kept in the queue, where others may decide it as well. */
export class QueuedEnd implements DeliveredLease {
  readonly rolloutId: string
  readonly cancelled: DeliveredLease['cancelled']
  readonly #publish: (end: LeasedEnd) => Promise<unknown>
  #decided: boolean
  #failure: Error | undefined

  /** @param publish - decides the end for all fronts, unless it is decided */
  constructor(record: RolloutRecord, publish: (end: LeasedEnd) => Promise<unknown>) {
    this.rolloutId = record.id
    this.cancelled = record.cancelled
    this.#decided = record.endedAt !== undefined
    this.#publish = publish
  }

  get decided(): boolean {
    return this.#decided
  }

  /** @throws the error of the queue that kept the end from being published */
  assertPublished(): void {
    if (this.#failure !== undefined) throw this.#failure
  }

  advance(): void {
    // The status of a rollout in the queue is its own.
  }

  decide(): boolean {
    if (this.#decided) return false
    this.#decided = true
    return true
  }

  async publish({ status, reward, errorMessage, json }: LeasedEnd): Promise<void> {
    try {
      await this.#publish({ status, reward, errorMessage, json })
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error))
    }
  }
}
