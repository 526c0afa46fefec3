import type { CancelDisposition } from '@osmosis/protocol/wire'
import {
  isEnded,
  type BackendWorkers,
  type ExecutionBackend,
  type RolloutSelector,
  type RolloutState,
} from '@osmosis/protocol'
import type { TraceHeaders } from '@osmosis/core/http'

import type { CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { LeasedRollout } from '../leases/leased-rollout.ts'
import type { Leases } from './leases.ts'
import type { ServerMetrics } from '../metrics/server-metrics.ts'
import type { Admission } from '../http/admission.ts'
import type {
  RolloutBody,
  LeaseResults,
  RolloutControl,
  RolloutCounts,
  RolloutAdmission,
} from './port-routes.ts'
import type { RolloutRequests } from './rollout-requests.ts'

/** What {@link LocalRollouts} works with. */
export interface LocalRolloutsParts {
  readonly backend: ExecutionBackend
  readonly requests: RolloutRequests
  readonly admission: Admission
  readonly leases: Leases
  readonly delivery: Pick<CallbackDelivery, 'undelivered'>
}

/** The rollouts of this process, as the routes see them. */
export class LocalRollouts implements RolloutAdmission, LeaseResults, RolloutControl {
  readonly #parts: LocalRolloutsParts

  constructor(parts: LocalRolloutsParts) {
    this.#parts = parts
  }

  accept({ kind, body }: RolloutBody, trace: TraceHeaders): Promise<string> {
    const { requests, admission } = this.#parts
    return admission.admit(
      kind === 'lease' ? requests.withLease(body, trace) : requests.withCallbacks(body, trace),
    )
  }

  get waitSeconds(): number {
    return this.#parts.leases.registry.waitSeconds
  }

  find(rolloutId: string): LeasedRollout | undefined {
    return this.#parts.leases.registry.get(rolloutId)
  }

  status(rolloutId: string): RolloutState {
    const { leases, admission, backend } = this.#parts
    const lease = leases.registry.get(rolloutId)
    // An end that a restart could still contradict is not reported yet, whatever the execution says.
    if (lease) return lease.end ?? { status: lease.status, reward: null, errorMessage: null }
    const state = admission.endOf(rolloutId) ?? backend.status(rolloutId)
    if (!isEnded(state.status) || !admission.isUndecided(rolloutId)) return state
    return { status: 'grading', reward: null, errorMessage: null }
  }

  cancel(selector: RolloutSelector): Map<string, CancelDisposition> {
    const { leases, backend } = this.#parts
    const leased = leases.cancel(selector)
    const others =
      'ids' in selector ? { ids: selector.ids.filter((id) => !leased.has(id)) } : selector
    // The leases' answers win: they remember their rollouts for longer than the backend does.
    return new Map([...backend.cancel(others), ...leased])
  }

  counts(): RolloutCounts {
    const { backend, delivery, leases } = this.#parts
    return {
      load: backend.load(),
      undelivered: delivery.undelivered,
      retainedResults: leases.registry.retainedCount,
    }
  }

  get accepting(): boolean {
    return this.#parts.admission.accepting
  }

  fence(): void {
    this.#parts.admission.fence()
  }

  get admittedIds(): string[] {
    return this.#parts.admission.admittedIds
  }
}

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

/** Registers the figures of leases. */
export function showLeases(metrics: ServerMetrics, leases: Leases): void {
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

function workersOf(backend: ShownBackend): BackendWorkers {
  return backend.workers?.() ?? { running: 0, restarts: {}, residentBytes: 0, cpuSeconds: 0 }
}
