import type { PolicyModel } from './policy-model.ts'
import type { RolloutOutcome } from './rollout-result.ts'

/** Where rollouts are sent. */
export interface ServerAddress {
  /** Base URL; `/rollout` is appended. */
  readonly url: string
  /** Bearer key of the server. Default: none is sent. */
  readonly apiKey?: string
}

/** Two callbacks of one kind for one rollout that say different things. */
export interface CallbackConflict {
  readonly rolloutId: string
  readonly kind: 'completion' | 'grader'
}

/** Options of `createController`. */
export interface ControllerOptions {
  /** Answers the model calls of all rollouts; the caller owns it. */
  readonly policy: PolicyModel
  /** Where `run` sends rollouts unless told otherwise. */
  readonly server?: ServerAddress
  /** Address to listen on. Default: `127.0.0.1`. */
  readonly host?: string
  /** Default: 0, any free port. */
  readonly port?: number
  /** Bearer the callbacks must carry. Default: random. */
  readonly callbackToken?: string
  /** Bearer the model calls must carry. Default: random. */
  readonly policyToken?: string
  /**
   * Commits the end of a rollout, e.g. to a journal: awaited before the callback is acknowledged
   * and before `run` resolves. One call at a time per rollout, and none after one that resolved.
   * When it throws, the callback is answered with 500, so that the rollout server sends it again.
   * Timeouts and cancellations are passed too; look at `status`.
   */
  readonly onTerminal?: (result: RolloutOutcome) => void | Promise<void>
  /** Hears of callbacks that contradict an earlier one. The earlier one stays. */
  readonly onConflict?: (conflict: CallbackConflict) => void
}

/** Options of `Controller.run`. */
export interface RunOptions {
  /** Cancels the rollout. */
  readonly signal?: AbortSignal
  /** Default: the controller's own `server`. */
  readonly server?: ServerAddress
}
