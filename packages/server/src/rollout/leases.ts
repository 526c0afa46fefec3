import { OsmosisError } from '@osmosis/core'
import { interrupted, type ExecutionBackend, type RolloutSelector } from '@osmosis/protocol'
import type { CancelDisposition } from '@osmosis/protocol/wire'

import type { OutboxRecord } from '../delivery/outbox-record.ts'
import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '../logging/secret-values.ts'
import { RunningWork } from '../work/running-work.ts'
import { LeasedDelivery, toLeasedEnd, type LeasedDeliveryOptions } from './leased-delivery.ts'
import { LeaseRegistry, type LeaseOptions } from '../leases/lease-registry.ts'
import type { LeasedRollout, LeaseIdentity } from '../leases/leased-rollout.ts'

/** What leases need. */
export interface LeaseServices {
  readonly backend: Pick<ExecutionBackend, 'cancel'>
  readonly logger: Logger
  readonly secrets: SecretValues
}

/** Ends the leased rollouts of a server that do not end on their own. */
export class Leases {
  readonly registry: LeaseRegistry
  readonly #services: LeaseServices
  readonly #publishing = new RunningWork()
  #lapsed = 0

  /** @throws OsmosisError with code `invalid_config` */
  constructor(options: LeaseOptions | undefined, services: LeaseServices) {
    this.registry = new LeaseRegistry(options)
    this.#services = services
  }

  /** How many rollouts ended because no caller polled for their result in time. */
  get lapsedCount(): number {
    return this.#lapsed
  }

  /** Starts a lease, and returns the delivery for its results. */
  begin(
    identity: LeaseIdentity,
    delivered: Pick<LeasedDeliveryOptions, 'graded' | 'save'>,
  ): LeasedDelivery {
    const lease = this.registry.begin(identity, (lapsed) => this.#lapse(lapsed))
    const { logger, secrets } = this.#services
    return new LeasedDelivery(lease, { ...delivered, logger, secrets, stop: this.#stop })
  }

  /**
   * Restores the leases of an earlier process: results are stored for the rest of their time, and
   * rollouts that had not ended have failed.
   */
  restore(records: readonly OutboxRecord[]): void {
    for (const record of records.toSorted((a, b) => (endOf(a) < endOf(b) ? -1 : 1))) {
      const { rolloutId, tokenDigest } = record.acceptance
      if (tokenDigest === null) continue
      const identity = { rolloutId, tokenDigest, record }
      if (record.end === undefined) {
        const { message } = interrupted(record.grading ? 'grading' : 'running')
        const lease = this.registry.begin(identity, () => undefined)
        this.#end(lease, { message, category: 'agent_error' })
      } else if (!this.registry.restore(identity, record.end, record.fetched)) {
        this.#publishing.start(async () => record.remove())
      }
    }
  }

  /**
   * Cancels leased rollouts. For `ids`, the result has every leased one; for other selectors, those
   * that had not ended.
   */
  cancel(selector: RolloutSelector): Map<string, CancelDisposition> {
    const dispositions = new Map<string, CancelDisposition>()
    for (const lease of this.#select(selector)) {
      const disposition = lease.cancel(() => this.#stop(lease.rolloutId))
      dispositions.set(lease.rolloutId, disposition)
    }
    return dispositions
  }

  /**
   * Ends the remaining rollouts when the server ends, and waits for callers that are about to fetch their
   * result.
   *
   * @param maxWaitMs - longest wait
   */
  async close(maxWaitMs: number): Promise<void> {
    const failure = { message: 'rollout server shut down', category: 'agent_error' } as const
    for (const lease of this.registry.live) this.#end(lease, failure)
    await this.#publishing.idleWithin(maxWaitMs)
    await this.registry.close(maxWaitMs)
  }

  #select(selector: RolloutSelector): LeasedRollout[] {
    if ('ids' in selector) {
      return selector.ids.map((id) => this.registry.get(id)).filter((lease) => lease !== undefined)
    }
    // A decided rollout has ended, although its files may still be written.
    const live = this.registry.live.filter(({ decided }) => !decided)
    if ('all' in selector) return live
    return live.filter(({ rolloutId }) => rolloutId.startsWith(selector.prefix))
  }

  #lapse(lease: LeasedRollout): void {
    const message = 'polling lease expired'
    if (!this.#end(lease, { message, category: 'lease_expired' })) return
    this.#lapsed += 1
    this.#services.logger.warn({ rollout_id: lease.rolloutId }, message)
    this.#stop(lease.rolloutId, new OsmosisError('lease_expired', message))
  }

  #end(
    lease: LeasedRollout,
    failure: { message: string; category: 'lease_expired' | 'agent_error' },
  ): boolean {
    if (!lease.decide()) return false
    const end = toLeasedEnd(lease.rolloutId, { status: 'failure', failure, samples: new Map() })
    this.#publishing.start(async () => lease.publish(end))
    return true
  }

  readonly #stop = (rolloutId: string, reason?: OsmosisError): CancelDisposition =>
    this.#services.backend.cancel({ ids: [rolloutId] }, reason).get(rolloutId) ?? 'not_found'
}

/** When the rollout ended; milliseconds since 1970. */
function endOf({ end }: OutboxRecord): number {
  return end?.at ?? Number.POSITIVE_INFINITY
}
