import type { QueueConnectionOptions } from '../connection/queue-connection.ts'
import { RolloutQueue, type QueueCounts } from './rollout-queue.ts'
import type { QueueWorker } from './worker-list.ts'

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

/**
 * Connects to a queue, and looks whether its Redis keeps what it is given.
 *
 * @throws OsmosisError with code `invalid_config`; `queue_unavailable` when Redis does not answer
 */
export async function openQueue(options: QueueConnectionOptions): Promise<OpenQueue> {
  return RolloutQueue.open(options)
}
