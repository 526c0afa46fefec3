import type { OsmosisError } from '@osmosis/core'
import type { RolloutEnd, RolloutRequest } from '@osmosis/runtime'

/** One rollout that a trainer handed out, until it was told how that ended. */
export interface TrainerTask {
  /** Tells the task from all others that its link hands out; stays the same when it is run again. */
  readonly key: string
  readonly request: RolloutRequest
}

/**
 * The way to one trainer, which hands out rollouts and is told how they ended. Whoever opens a link
 * closes it, after the worker that uses it has ended.
 */
export interface TrainerLink extends AsyncDisposable {
  /** The trainer, for people: `Agent Lightning at http://127.0.0.1:8080`. */
  readonly name: string
  /** Whether what the grader says of single steps gets there; default false: the worker warns once. */
  readonly takesStepRewards?: boolean
  /**
   * Takes rollouts; waits for at least one. What waits for long returns none now and then, and is called
   * again: more may be free by then. A trainer that cannot be reached is asked again.
   *
   * @param free - most that may be taken, at least 1
   * @param signal - ends the waiting. What was taken until then is still handed out, to be given back
   * as cancelled; else there is nothing
   * @returns null when there will be no more
   * @throws OsmosisError with code `unauthorized` for a wrong key, which ends the worker; so does
   * whatever else it throws
   */
  claim(free: number, signal: AbortSignal): Promise<readonly TrainerTask[] | null>
  /**
   * What this trainer makes of an end: a rollout whose rewards it cannot take has failed. All else is
   * about what this returns. Default: what is given.
   */
  asTold?(end: RolloutEnd): RolloutEnd
  /**
   * Whether a rollout is to be run once more in its slot, as the task that it returns. Asked before
   * `complete`, unless the worker is ending; after a task the trainer hears of its next end alone.
   */
  retry?(task: TrainerTask, end: RolloutEnd): Promise<TrainerTask | null>
  /**
   * Tells the trainer how a rollout ended. Resolves when it has acknowledged that, or no longer wants to
   * know.
   *
   * @throws OsmosisError with code `unauthorized`, which ends the worker; whatever else it throws is logged
   */
  complete(task: TrainerTask, end: RolloutEnd): Promise<void>
  /**
   * Resolves when the rollout has to end: with nothing when the trainer has withdrawn it, else with what
   * it fails of. Also when `signal` aborts. Never rejects.
   */
  watch?(task: TrainerTask, signal: AbortSignal): Promise<OsmosisError | undefined>
}
