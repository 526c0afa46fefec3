import type { OsmosisError } from '@osmosis/core'
import type { RolloutRequest } from '@osmosis/protocol'
import type { ExecutionOutcome } from '@osmosis/server/execution'

/** One rollout that a trainer has assigned, until its outcome is delivered. */
export interface TrainerTask {
  /** Identifies the task within its link; stays the same when the rollout is executed again. */
  readonly key: string
  readonly request: RolloutRequest
}

/**
 * A connection to one trainer, which assigns rollouts and receives their outcomes. The caller that opens a
 * link closes it, after the worker that uses it has ended.
 */
export interface TrainerLink extends AsyncDisposable {
  /** The trainer, as logs name it: `Agent Lightning at http://127.0.0.1:8080`. */
  readonly name: string
  /**
   * Claims rollouts and waits for at least one. A long wait returns an empty list from time to time and is
   * called again, because the worker may have more room by then. A trainer that cannot be reached is retried.
   *
   * @param free - the maximum number of rollouts, at least 1
   * @param signal - ends the wait. Rollouts claimed by then are still returned, and the worker gives them
   * back as cancelled
   * @returns null when there will be no more rollouts
   * @throws OsmosisError with code `unauthorized` for a wrong key. Any error ends the worker
   */
  claim(free: number, signal: AbortSignal): Promise<readonly TrainerTask[] | null>
  /**
   * The outcome that this trainer can accept: a rollout whose rewards it cannot use becomes a failed one.
   * Counts, logs, retries and the delivery use the result. Default: the outcome unchanged.
   */
  acceptedEnd?(end: ExecutionOutcome): ExecutionOutcome
  /**
   * Returns the task with which a rollout is executed once more in its slot, or null. Called before
   * `complete`, unless the worker is ending. After a retry only the next outcome is delivered.
   */
  retry?(task: TrainerTask, end: ExecutionOutcome): Promise<TrainerTask | null>
  /**
   * Delivers the outcome of a rollout. Resolves when the trainer has acknowledged it or no longer needs it.
   *
   * @throws OsmosisError with code `unauthorized`, which ends the worker; any other error is logged
   */
  complete(task: TrainerTask, end: ExecutionOutcome): Promise<void>
  /**
   * Resolves when the rollout has to end: with undefined when the trainer has withdrawn it, else with the
   * error that it fails with. Also resolves when `signal` aborts. Never rejects.
   */
  watch?(task: TrainerTask, signal: AbortSignal): Promise<OsmosisError | undefined>
}
