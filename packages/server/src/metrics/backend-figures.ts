import type { BackendWorkers, ExecutionBackend } from '@osmosis/protocol'

import type { ServerMetrics } from './server-metrics.ts'

type ShownBackend = Pick<ExecutionBackend, 'load' | 'workers'>

/** Registers the figures of a backend, or of the slots of agent loops. */
export function showBackend(metrics: ServerMetrics, backend: ShownBackend): void {
  metrics.gauges(
    'osmosis_rollouts',
    'Rollouts: queued for a slot, or running in one.',
    'state',
    () => {
      const { queued, running } = backend.load()
      return { queued, running }
    },
  )
  metrics.gauge(
    'osmosis_rollout_slots',
    'How many rollouts may run concurrently; +Inf when there is no limit.',
    () => backend.load().maxConcurrent ?? Number.POSITIVE_INFINITY,
  )
  if (backend.workers === undefined) return
  metrics.gauge('osmosis_workers', 'Worker processes.', () => workersOf(backend).running)
  metrics.counters(
    'osmosis_worker_restarts_total',
    'Replaced worker processes, by why they ended.',
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
    'CPU time of all worker processes so far, user and system.',
    () => workersOf(backend).cpuSeconds,
  )
}

function workersOf(backend: ShownBackend): BackendWorkers {
  return backend.workers?.() ?? { running: 0, restarts: {}, residentBytes: 0, cpuSeconds: 0 }
}
