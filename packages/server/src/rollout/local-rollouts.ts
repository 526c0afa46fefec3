import type { TraceHeaders } from '@osmosis/core/http'
import {
  isEnded,
  type ExecutionBackend,
  type RolloutSelector,
  type RolloutState,
} from '@osmosis/protocol'
import type { CancelDisposition } from '@osmosis/protocol/wire'

import type { CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { Admission } from '../http/admission.ts'
import type { LeasedRollout } from '../leases/leased-rollout.ts'
import type { Leases } from './leases.ts'
import type {
  RolloutBody,
  LeaseResults,
  RolloutControl,
  RolloutCounts,
  RolloutAdmission,
} from './ports/rollout-ports.ts'
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
