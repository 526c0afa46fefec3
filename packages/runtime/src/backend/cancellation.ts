import { isOsmosisError, type OsmosisErrorCode } from '@osmosis/core'

/** Who may end a rollout early: its trainer, a process that ends, or a lease that nobody renewed. */
export type Canceller = 'trainer' | 'shutdown' | 'lease'

const cancellers: Partial<Record<OsmosisErrorCode, Canceller>> = {
  cancelled: 'trainer',
  withdrawn: 'trainer',
  lease_expired: 'lease',
  server_shutdown: 'shutdown',
}

/** Who ended a rollout that failed of this; undefined when it failed by itself. */
export function cancellerOf(cause: unknown): Canceller | undefined {
  return isOsmosisError(cause) ? cancellers[cause.code] : undefined
}

/** Whether a rollout that failed of this has the status `cancelled`; one that a shutdown ended has not. */
export function isCancellation(cause: unknown): boolean {
  const canceller = cancellerOf(cause)
  return canceller === 'trainer' || canceller === 'lease'
}
