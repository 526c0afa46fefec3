import type { CancelDisposition } from '@osmosis/runtime/wire'
import {
  isEnded,
  type ExecutionBackend,
  type RolloutSelector,
  type RolloutState,
} from '@osmosis/runtime'
import type { TraceHeaders } from '@osmosis/core/http'

import type { CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { LeasedRollout } from '../leases/leased-rollout.ts'
import type { Leases } from '../leases/leases.ts'
import type { Admission } from '../work/admission.ts'
import type {
  AskedRollout,
  FetchedResults,
  RolloutControl,
  RolloutCounts,
  RolloutIntake,
} from './rollout-ports.ts'
import type { RolloutRequests } from './rollout-requests.ts'

/** What rollouts of this process are looked after with. */
export interface OwnRolloutsParts {
  readonly backend: ExecutionBackend
  readonly requests: RolloutRequests
  readonly admission: Admission
  readonly leases: Leases
  readonly delivery: Pick<CallbackDelivery, 'undelivered'>
}

/** The rollouts of this process, as the routes see them. */
export class OwnRollouts implements RolloutIntake, FetchedResults, RolloutControl {
  readonly #parts: OwnRolloutsParts

  constructor(parts: OwnRolloutsParts) {
    this.#parts = parts
  }

  accept({ kind, body }: AskedRollout, trace: TraceHeaders): Promise<string> {
    const { requests, admission } = this.#parts
    const requested =
      kind === 'lease' ? requests.withLease(body, trace) : requests.withCallbacks(body, trace)
    return admission.admit(requested)
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
    // An end that a restart could still contradict is none yet, whatever the execution says.
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
    // What leases answer counts: they know their rollouts for longer than the backend does.
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
