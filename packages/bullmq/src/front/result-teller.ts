import { isEnded, type RolloutObserver, type SamplesById } from '@osmosis/runtime'
import { inTrace } from '@osmosis/core/http'
import {
  LeasedDelivery,
  RolloutCallbacks,
  type CallbackTargets,
  type TrajectoryFiles,
  type LeaseSettings,
  type RolloutTrajectory,
  type ServerServices,
} from '@osmosis/server/protocols'

import type { RolloutQueue } from '../queue/rollout-queue.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'
import { KeptCallbacks } from './kept-callbacks.ts'
import { readRollout, type KnownRollout, type StateTimes } from './known-rollout.ts'
import { QueuedEnd } from './queued-end.ts'
import type { QueuedDelivery } from './queue-intake.ts'

type Targets = NonNullable<QueuedDelivery['targets']>

/** Of a rollout without documents. */
const unwritten = { initialMessages: [], label: null, metadata: null }

/** What results are told with. */
export interface TellerParts {
  readonly queue: RolloutQueue
  readonly leases: LeaseSettings
  readonly files: TrajectoryFiles
  readonly services: ServerServices
  /** How long this front may be silent before others tell what it was telling. Milliseconds. */
  readonly lockMs: number
  /** How long a callback is tried again after it was given up. Milliseconds since its acceptance. */
  readonly undeliveredMs: number
}

/**
 * Tells what is known of a rollout and was not told, from the queue alone: it does not matter who
 * accepted the rollout or who began to tell.
 */
export class ResultTeller {
  readonly #parts: TellerParts
  readonly #telling = new Set<string>()
  #timer: NodeJS.Timeout | undefined

  constructor(parts: TellerParts) {
    this.#parts = parts
  }

  start(): void {
    const { queue, lockMs } = this.#parts
    this.#timer = setInterval(() => {
      if (this.#telling.size === 0) return
      // What fails is done the next time.
      queue.records.postponeDelivery([...this.#telling], lockMs * 1.5).catch(() => {})
    }, lockMs / 2).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /**
   * @param mayHaveEnded - a hint: whether the rollout has ended
   * @throws Error when something is left to be told later
   */
  async tell(rolloutId: string, mayHaveEnded: boolean): Promise<void> {
    this.#telling.add(rolloutId)
    try {
      await this.#tell(rolloutId, mayHaveEnded)
    } finally {
      this.#telling.delete(rolloutId)
    }
  }

  async #tell(rolloutId: string, mayHaveEnded: boolean): Promise<void> {
    const { queue, files } = this.#parts
    const known = await readRollout(queue.records, rolloutId, mayHaveEnded, files.areWritten)
    if (known === undefined) return
    const { record, delivery } = known
    const { targets, apiKey, traceHeaders = {}, extraFields } = delivery
    const { secrets } = this.#parts.services
    const forgetSecrets = secrets.add(apiKey, targets?.apiKey)
    let endedMeanwhile = false
    try {
      await inTrace(traceHeaders, async () => {
        const trajectory = files.begin(known.request ?? { ...unwritten, rolloutId }, extraFields)
        if (targets === undefined) await this.#tellLease(known, trajectory)
        else if (isEnded(record.status)) await this.#tellEnd(known, targets, trajectory)
        else endedMeanwhile = await this.#tellCompletion(known, targets, trajectory)
      })
    } finally {
      forgetSecrets()
    }
    if (endedMeanwhile) await this.#tell(rolloutId, true)
  }

  /** @returns whether the rollout has ended meanwhile */
  async #tellCompletion(
    known: KnownRollout,
    targets: Targets,
    trajectory: RolloutTrajectory,
  ): Promise<boolean> {
    const { records } = this.#parts.queue
    const { id } = known.record
    let report: string | undefined
    const kept = await this.#tellCallbacks(known, 'completion', trajectory, {
      ...targets,
      onAcknowledged: (text) => {
        trajectory.acknowledged(text)
        report = text
      },
    })
    await kept.assertKept()
    // Whatever became of the completion: it is tried again with the grading.
    return records.allowGrading(id, { told: kept.lastTold, report })
  }

  async #tellEnd(
    known: KnownRollout,
    targets: Targets,
    trajectory: RolloutTrajectory,
  ): Promise<void> {
    const last = targets.graderUrl === null ? 'completion' : 'grader'
    if (known.report !== undefined) trajectory.acknowledged(known.report)
    const onAcknowledged = (text: string): void => trajectory.acknowledged(text)
    const kept = await this.#tellCallbacks(known, last, trajectory, { ...targets, onAcknowledged })
    await kept.assertKept()
    await trajectory.write()
    if (kept.gaveUp) {
      await this.#parts.queue.records.deliverLater(known.record.id)
      throw new Error('not every callback was acknowledged')
    }
    const how = kept.lastTold
    await this.#finish(known, how && { kind: last, how })
  }

  async #tellCallbacks(
    known: KnownRollout,
    last: 'completion' | 'grader',
    trajectory: RolloutTrajectory,
    targets: CallbackTargets,
  ): Promise<KeptCallbacks> {
    const { queue, services, undeliveredMs } = this.#parts
    const { record, grading } = known
    const kept = new KeptCallbacks({
      rolloutId: record.id,
      records: queue.records,
      samples: grading?.samples ?? new Map(),
      last,
      isLastTry: Date.now() - record.admittedAt > undeliveredMs,
    })
    const callbacks = new RolloutCallbacks(targets, services, kept)
    // What was told is in the log already.
    const isTold = record.told['completion'] !== undefined
    const observer: RolloutObserver = {
      workflowFinished: async (outcome) => {
        if (!isTold) await callbacks.workflowFinished(outcome)
      },
      gradingFinished: async (outcome) => callbacks.gradingFinished(outcome),
    }
    await this.#replay(known, trajectory.observing(observer))
    return kept
  }

  async #tellLease(known: KnownRollout, trajectory: RolloutTrajectory): Promise<void> {
    const { queue, services, leases } = this.#parts
    const { record, delivery } = known
    if (!isEnded(record.status)) return
    const keep = (): Promise<void> => trajectory.write()
    const end = new QueuedEnd(record, async (decided) =>
      queue.leases.publish(record.id, decided, leases.retentionSeconds * 1000),
    )
    const { logger, secrets } = services
    const options = { graded: delivery.grade, keep, logger, secrets, stop: nothing }
    await this.#replay(known, trajectory.observing(new LeasedDelivery(end, options)))
    end.assertPublished()
    await trajectory.write()
    await this.#finish(known)
  }

  /** Reports what happened, as the backend would have that ran the rollout. */
  async #replay({ workflow, grading }: KnownRollout, observer: RolloutObserver): Promise<void> {
    await observer.workflowFinished(workflow.outcome, workflow.samples)
    if (grading !== undefined) await observer.gradingFinished(grading)
  }

  /** @param last - what was told last, if that is not noted yet */
  async #finish(
    known: KnownRollout,
    last?: Parameters<RolloutRecords['finish']>[2],
  ): Promise<void> {
    const { queue, leases, services } = this.#parts
    const { id, kind, errorMessage } = known.record
    await this.#count(known)
    if (errorMessage !== null) {
      // Its keys are forgotten with it.
      await queue.records.rewordError(id, services.secrets.redactError(errorMessage))
    }
    const keepMs = kind === 'lease' ? leases.retentionSeconds * 1000 : undefined
    await queue.records.finish(id, keepMs, last)
    services.logger.info({ rollout_id: id }, 'rollout ended')
  }

  async #count({ record, workflow, grading, times }: KnownRollout): Promise<void> {
    const { metrics } = this.#parts.services
    const { outcome, samples } = workflow
    const partial: SamplesById = (await outcome.partialSamples) ?? new Map()
    for (const { calls } of [...samples.values(), ...partial.values()]) {
      for (const call of calls) metrics.policy.count(call)
    }
    for (const call of outcome.otherCalls ?? []) metrics.policy.count(call)
    const failure = grading === undefined ? outcome.failure : grading.failure
    metrics.rollouts.count(failure, phaseSeconds(record.admittedAt, times))
  }
}

/** Whoever decides the end of a lease early stops its rollout as well. */
function nothing(): void {}

function phaseSeconds(admittedAt: number, times: StateTimes): Record<string, number> {
  const { running, grading, allowed } = times
  const ended = times.success ?? times.failure ?? times.cancelled ?? admittedAt
  const spans = [
    ['queue', admittedAt, running ?? ended],
    ['workflow', running, grading ?? ended],
    ['grading', grading === undefined ? undefined : Math.max(allowed ?? grading, grading), ended],
  ] as const
  const known = spans.flatMap(([phase, from, to]) =>
    from === undefined ? [] : [[phase, Math.max(to - from, 0) / 1000] as const],
  )
  return Object.fromEntries(known)
}
