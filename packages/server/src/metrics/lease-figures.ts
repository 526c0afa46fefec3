import type { LeaseRegistry } from '../leases/lease-registry.ts'
import type { ServerMetrics } from './server-metrics.ts'

interface ShownLeases {
  readonly registry: LeaseRegistry
  /** Rollouts that ended because no caller polled for them. */
  readonly lapsedCount: number
}

/** Registers the figures of leases. */
export function showLeases(metrics: ServerMetrics, leases: ShownLeases): void {
  const { registry } = leases
  metrics.gauge(
    'osmosis_leases_held',
    'Leased rollouts that are in progress.',
    () => registry.live.length,
  )
  metrics.gauge(
    'osmosis_lease_results',
    'Results that are stored for their callers.',
    () => registry.retainedCount,
  )
  metrics.gauge(
    'osmosis_lease_result_bytes',
    'Size of the results that are stored for their callers.',
    () => registry.retainedBytes,
  )
  metrics.counter(
    'osmosis_leases_lapsed_total',
    'Rollouts that ended because no caller polled for their result in time.',
    () => leases.lapsedCount,
  )
}
