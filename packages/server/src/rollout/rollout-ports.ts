import type { BackendLoad, RolloutSelector, RolloutState } from '@osmosis/runtime'
import type {
  CancelDisposition,
  LeasedRolloutRequestBody,
  RolloutRequestBody,
} from '@osmosis/runtime/wire'
import type { TraceHeaders } from '@osmosis/core/http'

// What the routes of the rollout protocol know of rollouts. Behind it they are in this process, or
// somewhere that several servers share, which is why everything here may have to be waited for.

/** A body of `POST /rollout`, by the way that its results take. */
export type AskedRollout =
  | { readonly kind: 'callbacks'; readonly body: RolloutRequestBody }
  | { readonly kind: 'lease'; readonly body: LeasedRolloutRequestBody }

/** Takes rollouts in. */
export interface RolloutIntake {
  /**
   * Accepts a rollout, once, and resolves with the body of the answer: JSON.
   *
   * @throws HttpRefusal when it is not accepted
   */
  accept(asked: AskedRollout, trace: TraceHeaders): Promise<string>
}

/** A rollout whose result is fetched. */
export interface FetchedRollout {
  /** Whether this is the token of its lease. Takes equally long for every wrong one. */
  carries(token: string): boolean
  /**
   * Renews the lease, then waits until the status differs from the one that was answered last, the
   * time is up, or `signal` aborts. Resolves with the body of the answer: JSON.
   */
  read(longestMs: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer> | string>
}

/** Where results are fetched. */
export interface FetchedResults {
  /** Longest time a request for a result waits for news. Seconds. */
  readonly waitSeconds: number
  find(rolloutId: string): FetchedRollout | undefined | Promise<FetchedRollout | undefined>
}

/** What `/health` says of rollouts. */
export interface RolloutCounts {
  readonly load: BackendLoad
  /** Callbacks that are still to be told. */
  readonly undelivered: number
  /** Results that are kept for their callers. */
  readonly retainedResults: number
}

/** Looks after rollouts, whatever way their results take. */
export interface RolloutControl {
  status(rolloutId: string): RolloutState | Promise<RolloutState>
  /** The result has every id of an `ids` selector, and for others those that were cancelled. */
  cancel(
    selector: RolloutSelector,
  ): Map<string, CancelDisposition> | Promise<Map<string, CancelDisposition>>
  counts(): RolloutCounts | Promise<RolloutCounts>
  /** Whether this server accepts rollouts. */
  readonly accepting: boolean
  /** This server accepts nothing from now on. */
  fence(): void
  /** Ids of the rollouts that this server accepted. */
  readonly admittedIds: readonly string[]
}

/** All that the routes of the rollout protocol stand on. */
export interface RolloutPorts {
  readonly intake: RolloutIntake
  readonly results: FetchedResults
  readonly control: RolloutControl
}
