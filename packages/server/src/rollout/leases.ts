import { OsmosisError, isOsmosisError } from '@osmosis/core'
import {
  interrupted,
  reportAfter,
  type ExecutionBackend,
  type GradingOutcome,
  type RolloutEvent,
  type RolloutReport,
  type RolloutSelector,
  type SamplesById,
} from '@osmosis/protocol'
import type {
  CancelDisposition,
  LeasedErrorCategory,
  LeasedResultBody,
} from '@osmosis/protocol/wire'

import type { OutboxRecord } from '../delivery/outbox-record.ts'
import { LeaseRegistry, type LeaseOptions } from '../leases/lease-registry.ts'
import type { LeasedRollout, LeaseIdentity, LeaseOutcome } from '../leases/leased-rollout.ts'
import { RunningWork } from '../work/running-work.ts'
import { encodeSamples, onlyOne, type EncodedBody } from './callback-bodies.ts'
import { OutcomeLog, warnOfStepRewards, type LogServices } from './server-stages.ts'

/** What leases need. */
export interface LeaseServices extends LogServices {
  readonly backend: Pick<ExecutionBackend, 'cancel'>
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

  /**
   * Turns the events of a rollout into the one result that the holder of its lease fetches.
   *
   * @param graded - whether its result is that of the grading
   * @param save - writes what must exist before the result is published; takes bounded time, never rejects
   */
  async deliver(
    identity: LeaseIdentity,
    events: AsyncIterable<RolloutEvent>,
    { graded, save }: { readonly graded: boolean; readonly save: () => Promise<void> },
  ): Promise<void> {
    const lease = this.registry.begin(identity, (lapsed) => this.#lapse(lapsed))
    let report: RolloutReport | undefined
    for await (const event of events) {
      report = reportAfter(report, event)
      if (event.type === 'started') lease.advance('running')
      const isGradedNext = event.type === 'workflow' && graded && event.outcome.failure === null
      if (isGradedNext) lease.advance('grading')
      const isOver = !isGradedNext || lease.cancelled !== undefined
      // Decided and encoded before the first await: user code may still hold the samples.
      if (report !== undefined && isOver && lease.decide()) {
        const end = leasedResult(lease, report, this.#services)
        await save()
        await lease.publish(end)
      }
      // Again: the backend may not have known the rollout when its end was decided.
      if (lease.cancelled !== undefined || lease.decided) this.#stop(lease.rolloutId)
    }
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

/** The outcome of the last phase. */
type EndedPhase = Pick<GradingOutcome, 'status' | 'failure' | 'samples'>

interface LeasedOutcome {
  readonly status: LeaseOutcome['status']
  readonly failure: LeasedFailure | null
  readonly samples: SamplesById
}

interface LeasedFailure {
  readonly message: string | null
  readonly category: LeasedErrorCategory | null
}

/**
 * The result of a leased rollout that has ended.
 *
 * @param cancelled - the answer to the first cancel request
 */
export function leasedResult(
  { rolloutId, cancelled }: Pick<LeasedRollout, 'rolloutId' | 'cancelled'>,
  { workflow, samples, grading }: RolloutReport,
  services: LogServices,
): LeaseOutcome {
  const log = new OutcomeLog(rolloutId, services)
  let ended: EndedPhase = { status: 'success', failure: null, samples }
  if (workflow.failure !== null) ended = { ...workflow, samples: new Map() }
  else if (grading !== undefined && cancelled === undefined) {
    warnOfStepRewards(rolloutId, grading.samples.values(), services.logger)
    ended = grading
  }
  const { warning, ...end } = toLeasedEnd(rolloutId, resultOf(ended, cancelled, log))
  if (warning !== null) log.warn(`The result leaves out ${warning}.`)
  return end
}

/** The outcome for the caller: a cancelled rollout is not a failure, and there is room for one sample. */
function resultOf(
  { status, failure, samples }: EndedPhase,
  cancelled: LeasedRollout['cancelled'],
  log: OutcomeLog,
): LeasedOutcome {
  const cause = failure?.cause
  if (cancelled || (isOsmosisError(cause) && cause.code === 'cancelled')) {
    const message = cancelled === 'cancelled_queued' ? null : 'cancelled'
    return { status: 'cancelled', failure: { message, category: null }, samples }
  }
  if (failure?.isOfBackend === true) {
    return { status, failure: { ...failure, category: 'internal_error' }, samples }
  }
  if (status === 'failure' || samples.size < 2) return { status, failure, samples }
  const message = tooManySamples(samples)
  log.warn(message)
  return { status: 'failure', failure: { message, category: 'validation_error' }, samples }
}

/** The end of a leased rollout, encoded. */
export function toLeasedEnd(
  rolloutId: string,
  { status, failure, samples }: LeasedOutcome,
): LeaseOutcome & Pick<EncodedBody, 'warning'> {
  const errorMessage = failure?.message ?? null
  let reward: number | null = null
  const { json, warning } = encodeSamples({ status, samples }, (bodies) => {
    const sample = onlyOne(bodies)
    reward = sample?.reward ?? null
    return {
      rollout_id: rolloutId,
      status,
      sample,
      err_message: errorMessage,
      err_category: failure?.category ?? null,
    } satisfies LeasedResultBody
  })
  return { status, reward, errorMessage, json, warning }
}

function tooManySamples(samples: SamplesById): string {
  const names = [...samples.keys()].join(', ')
  return `The rollout has ${samples.size} samples (${names}), and a fetched result has room for one. Register one sample, or have the results sent to callback URLs.`
}
