import type { BackendWorkers, ExecutionBackend } from '@osmosis/runtime'

import type { Leases } from '../leases/leases.ts'
import type { ServerMetrics } from '../metrics/server-metrics.ts'

/** Shows how busy a backend is. */
export function showBackend(metrics: ServerMetrics, backend: ExecutionBackend): void {
  metrics.gauges(
    'osmosis_rollouts',
    'Rollouts of the backend: queued for a slot, or running in one.',
    'state',
    () => {
      const { queued, running } = backend.load()
      return { queued, running }
    },
  )
  metrics.gauge(
    'osmosis_rollout_slots',
    'How many rollouts may run at the same time; +Inf when there is no limit.',
    () => backend.load().maxConcurrent ?? Number.POSITIVE_INFINITY,
  )
  if (backend.workers === undefined) return
  metrics.gauge('osmosis_workers', 'Worker processes there are.', () => workersOf(backend).running)
  metrics.counters(
    'osmosis_worker_restarts_total',
    'Worker processes that were replaced, by why they ended.',
    'reason',
    () => workersOf(backend).restarts,
  )
  metrics.gauge(
    'osmosis_worker_resident_memory_bytes',
    'Memory of all worker processes together.',
    () => workersOf(backend).residentBytes,
  )
  metrics.counter(
    'osmosis_worker_cpu_seconds_total',
    'CPU time of all worker processes there have been, user and system.',
    () => workersOf(backend).cpuSeconds,
  )
}

/** Shows how leases stand. */
export function showLeases(metrics: ServerMetrics, leases: Leases): void {
  const { registry } = leases
  metrics.gauge(
    'osmosis_leases_held',
    'Leased rollouts that are going on.',
    () => registry.live.length,
  )
  metrics.gauge(
    'osmosis_lease_results',
    'Results that are kept for their callers.',
    () => registry.retainedCount,
  )
  metrics.gauge(
    'osmosis_lease_result_bytes',
    'Size of the results that are kept for their callers.',
    () => registry.retainedBytes,
  )
  metrics.counter(
    'osmosis_leases_lapsed_total',
    'Rollouts that ended because nobody asked for their result in time.',
    () => leases.lapsedCount,
  )
}

function workersOf(backend: ExecutionBackend): BackendWorkers {
  return backend.workers?.() ?? { running: 0, restarts: {}, residentBytes: 0, cpuSeconds: 0 }
}
