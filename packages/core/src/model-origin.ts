import { OsmosisError } from './errors.ts'
import { getRolloutContext, recordOf, type RolloutContext } from './rollout-context.ts'
import { sharedByCopies } from './shared-by-copies.ts'

/** Rollouts whose code has made models of its own. */
const withModels = sharedByCopies('rollouts-with-models', () => new WeakSet<RolloutContext>())

/**
 * For adapters: the rollout that a model is made in. A model that is made at the top of a module serves every rollout
 * that calls it. One that is made inside a rollout belongs to it: where another rollout with models of its own calls it,
 * a queue has started a job in the wrong async context, and the call would become part of another conversation.
 */
export class ModelOrigin {
  /** Code that has lost its async context, such as a callback of a native addon, finds its rollout here. */
  readonly #made = getRolloutContext()

  constructor() {
    if (this.#made !== undefined) withModels.add(this.#made)
  }

  /** The rollout that a call made now is part of; undefined outside of rollouts. */
  get rollout(): RolloutContext | undefined {
    return getRolloutContext() ?? this.#made
  }

  /**
   * The same, for a call that is about to be made.
   *
   * @param what - the start of the error message, such as `A rolloutModel()`
   * @throws OsmosisError with code `wrong_rollout_context`
   */
  ofCall(what: string): RolloutContext | undefined {
    const { rollout } = this
    const made = this.#made
    if (made === undefined || rollout === made || rollout === undefined) return rollout
    // A model that is made lazily by the first rollout, and kept for all, is the only one.
    if (!withModels.has(rollout)) return rollout
    throw wrongRollout(what, made, rollout)
  }
}

/**
 * The error of something of one rollout that is used in the async context of another one. It fails the first one, whatever
 * its framework makes of the error.
 */
export function wrongRollout(
  what: string,
  made: RolloutContext,
  current: RolloutContext,
): OsmosisError {
  const error = new OsmosisError(
    'wrong_rollout_context',
    `${what} of rollout "${made.rolloutId}" was used inside rollout "${current.rolloutId}". Make it inside AgentWorkflow.run(), once per rollout. If it is, a queue of the program starts a job in the async context of the one before: give the queue AsyncResource.bind(job) instead of job (import { AsyncResource } from 'node:async_hooks').`,
  )
  recordOf(made).misuse ??= error
  return error
}

/** A model for outside of rollouts, or a function that makes it. */
export type FallbackModel<T> = T | (() => T)

const made = new WeakMap<object, unknown>()

/**
 * For adapters: the model that a user gave for outside of rollouts. A function is called when the model is first needed,
 * and once, however many agents have it, so that rollouts run without the model's key.
 */
export function fallbackModel<T>(given: FallbackModel<T>): T {
  if (typeof given !== 'function') return given
  const make = given as () => T
  if (!made.has(make)) made.set(make, make())
  return made.get(make) as T
}
