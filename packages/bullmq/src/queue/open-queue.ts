import type { QueueWorker } from './worker-list.ts'

/** How many rollouts are where. */
export interface QueueCounts {
  readonly queued: number
  readonly running: number
  readonly grading: number
  /** With a lease that somebody has to renew. */
  readonly leased: number
  /** With outcomes that have not been told yet. */
  readonly untold: number
  /** Accepted, and not ended and told. */
  readonly inFlight: number
}

/** A queue of rollouts, for a server over it and for whoever looks after it. The caller closes it. */
export interface OpenQueue extends AsyncDisposable {
  /** What looks wrong with this Redis, one sentence each; to be logged. */
  readonly warnings: readonly string[]
  /** Where the queue is, without user and password. */
  readonly address: string
  /** How many rollouts are where. */
  counts(): Promise<QueueCounts>
  /** The workers that are alive. */
  workers(): Promise<QueueWorker[]>
  /**
   * Bounds how many rollouts run at the same time on all workers together; null: any number.
   *
   * @throws OsmosisError with code `invalid_config`; `queue_unavailable`
   */
  setMaxRollouts(most: number | null): Promise<void>
  /** Resolves when what is being told has been told. */
  close(): Promise<void>
}
