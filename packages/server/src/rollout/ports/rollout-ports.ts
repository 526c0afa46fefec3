import type { TraceHeaders } from '@osmosis/core/http'
import type { BackendLoad, RolloutSelector, RolloutState } from '@osmosis/protocol'
import type {
  CancelDisposition,
  LeasedRolloutRequestBody,
  RolloutRequestBody,
} from '@osmosis/protocol/wire'

// How the routes of the rollout protocol access rollouts, which are in this process or in a queue that
// several servers share. Therefore everything here may be asynchronous.

/** A body of `POST /rollout`, by how its results are delivered. */
export type RolloutBody =
  | { readonly kind: 'callbacks'; readonly body: RolloutRequestBody }
  | { readonly kind: 'lease'; readonly body: LeasedRolloutRequestBody }

/** Accepts rollouts. */
export interface RolloutAdmission {
  /**
   * Accepts a rollout, once, and resolves with the body of the answer: JSON.
   *
   * @throws HttpRefusal when it is not accepted
   */
  accept(requested: RolloutBody, trace: TraceHeaders): Promise<string>
}

/** A rollout whose result is fetched. */
export interface LeaseReader {
  /** Whether this is the token of its lease. Takes equally long for every wrong token. */
  carries(token: string): boolean
  /**
   * Renews the lease, then waits until the status differs from the last answer, the time is over, or
   * `signal` aborts. Resolves with the body of the answer: JSON.
   */
  read(maxWaitMs: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer> | string>
}

/** Finds leased rollouts. */
export interface LeaseResults {
  /** Longest wait of a request for a result. Seconds. */
  readonly waitSeconds: number
  find(rolloutId: string): LeaseReader | undefined | Promise<LeaseReader | undefined>
}

/** The figures of `/health`. */
export interface RolloutCounts {
  readonly load: BackendLoad
  /** Pending callbacks. */
  readonly undelivered: number
  /** Results that are stored for their callers. */
  readonly retainedResults: number
}

/** Shows and cancels rollouts, however their results are delivered. */
export interface RolloutControl {
  status(rolloutId: string): RolloutState | Promise<RolloutState>
  /** For `ids`, the result has every id; for other selectors, those that were cancelled. */
  cancel(
    selector: RolloutSelector,
  ): Map<string, CancelDisposition> | Promise<Map<string, CancelDisposition>>
  counts(): RolloutCounts | Promise<RolloutCounts>
  /** Whether this server accepts rollouts. */
  readonly accepting: boolean
  /** Makes this server refuse new rollouts. */
  fence(): void
  /** Ids of the rollouts that this server accepted. */
  readonly admittedIds: readonly string[]
}

/** Everything that the routes of the rollout protocol need. */
export interface RolloutPorts {
  readonly admission: RolloutAdmission
  readonly results: LeaseResults
  readonly control: RolloutControl
}
