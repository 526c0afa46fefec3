import { inTrace } from '@osmosis/core/http'
import {
  isEnded,
  type RolloutReport,
  type RolloutRequest,
  type SamplesById,
} from '@osmosis/protocol'
import {
  countModelCalls,
  deliverCompletion,
  deliverGrading,
  gradingOf,
  leasedResult,
  OutcomeLog,
  type CallbackTargets,
  type TrajectoryFiles,
  type LeaseSettings,
  type RolloutTrajectory,
  type ServerServices,
} from '@osmosis/server/protocols'

import type { RolloutQueue } from '../queue/rollout-queue.ts'
import type { DeliveryKind, RolloutRecord } from '../records/rollout-record.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'
import type { QueuedDelivery } from './queue-admission.ts'
import { QueuedCallbacks } from './queued-callbacks.ts'

/** The request of a rollout without documents. */
const unwritten = { initialMessages: [], label: null, metadata: null }

/** Dependencies of a delivery loop. */
export interface DeliveryParts {
  readonly queue: RolloutQueue
  readonly leases: LeaseSettings
  readonly files: TrajectoryFiles
  readonly services: ServerServices
  /** How long this server may be silent before others take over its deliveries. Milliseconds. */
  readonly lockMs: number
  /** How long after the acceptance of a rollout its callbacks are retried. Milliseconds. */
  readonly undeliveredMs: number
}

/**
 * Delivers the pending outcomes of a rollout from its record alone: it does not matter which server
 * accepted the rollout or started the delivery.
 */
export class DeliveryLoop {
  readonly #parts: DeliveryParts
  readonly #delivering = new Set<string>()
  #timer: NodeJS.Timeout | undefined

  constructor(parts: DeliveryParts) {
    this.#parts = parts
  }

  start(): void {
    const { queue, lockMs } = this.#parts
    this.#timer = setInterval(() => {
      if (this.#delivering.size === 0) return
      // The next tick tries again.
      queue.records.postponeDelivery([...this.#delivering], lockMs * 1.5).catch(() => {})
    }, lockMs / 2).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /**
   * @param mayHaveEnded - a hint: whether the rollout has ended
   * @throws Error when a callback stays pending
   */
  async deliver(rolloutId: string, mayHaveEnded: boolean): Promise<void> {
    this.#delivering.add(rolloutId)
    try {
      await this.#deliver(rolloutId, mayHaveEnded)
    } finally {
      this.#delivering.delete(rolloutId)
    }
  }

  async #deliver(rolloutId: string, mayHaveEnded: boolean): Promise<void> {
    const { queue, files } = this.#parts
    const { records } = queue
    const pending = await readPendingDelivery(records, rolloutId, mayHaveEnded, files.areWritten)
    if (pending === undefined) return
    const { record, delivery } = pending
    const { targets, apiKey, traceHeaders = {}, extraFields } = delivery
    const { secrets } = this.#parts.services
    const forgetSecrets = secrets.add(apiKey, targets?.apiKey)
    let endedMeanwhile = false
    try {
      await inTrace(traceHeaders, async () => {
        const trajectory = files.begin(pending.request ?? { ...unwritten, rolloutId }, extraFields)
        if (!isEnded(record.status)) {
          if (targets !== undefined) {
            endedMeanwhile = await this.#deliverCompletion(pending, targets, trajectory)
          }
          return
        }
        trajectory.workflowEnded(pending.workflow, pending.samples)
        if (pending.grading !== undefined) trajectory.gradingEnded(pending.grading)
        if (targets === undefined) await this.#publishResult(pending, trajectory)
        else await this.#deliverEnd(pending, targets, trajectory)
      })
    } finally {
      forgetSecrets()
    }
    if (endedMeanwhile) await this.#deliver(rolloutId, true)
  }

  /** @returns whether the rollout has ended meanwhile */
  async #deliverCompletion(
    pending: QueuedPendingDelivery,
    targets: CallbackTargets,
    trajectory: RolloutTrajectory,
  ): Promise<boolean> {
    let report: string | undefined
    const callbacks = this.#callbacksOf(pending, 'completion')
    await this.#deliverCallbacks(pending, callbacks, {
      ...targets,
      onAcknowledged: (text) => {
        trajectory.acknowledged(text)
        report = text
      },
    })
    await callbacks.assertKept()
    // A completion that was not delivered is tried again with the grader callback.
    const delivered = callbacks.lastOutcome
    return this.#parts.queue.records.allowGrading(pending.record.id, { delivered, report })
  }

  async #deliverEnd(
    pending: QueuedPendingDelivery,
    targets: CallbackTargets,
    trajectory: RolloutTrajectory,
  ): Promise<void> {
    const last = targets.graderUrl === null ? 'completion' : 'grader'
    if (pending.report !== undefined) trajectory.acknowledged(pending.report)
    const onAcknowledged = (text: string): void => trajectory.acknowledged(text)
    const callbacks = this.#callbacksOf(pending, last)
    await this.#deliverCallbacks(pending, callbacks, { ...targets, onAcknowledged })
    await callbacks.assertKept()
    await trajectory.write()
    if (callbacks.gaveUp) {
      await this.#parts.queue.records.deliverLater(pending.record.id)
      throw new Error('not every callback was acknowledged')
    }
    const how = callbacks.lastOutcome
    await this.#finish(pending, how && { kind: last, how })
  }

  #callbacksOf(
    { since, record, grading }: QueuedPendingDelivery,
    last: DeliveryKind,
  ): QueuedCallbacks {
    const { queue, undeliveredMs } = this.#parts
    return new QueuedCallbacks({
      rolloutId: record.id,
      records: queue.records,
      since,
      samples: grading?.samples ?? new Map(),
      last,
      isLastTry: async () => (await queue.records.now()) - record.admittedAt > undeliveredMs,
    })
  }

  async #deliverCallbacks(
    { record, workflow, grading }: QueuedPendingDelivery,
    callbacks: QueuedCallbacks,
    targets: CallbackTargets,
  ): Promise<void> {
    const { services } = this.#parts
    const way = { targets, services, record: callbacks }
    const log = new OutcomeLog(record.id, services)
    if (record.delivered['completion'] === undefined) {
      await deliverCompletion(way, log.workflow(workflow))
    }
    const graded = gradingOf({ workflow, grading })
    if (graded !== undefined) await deliverGrading(way, log.grading(graded))
  }

  async #publishResult(
    pending: QueuedPendingDelivery,
    trajectory: RolloutTrajectory,
  ): Promise<void> {
    const { queue, services, leases } = this.#parts
    const { id, cancelled, endedAt } = pending.record
    const log = new OutcomeLog(id, services)
    const workflow = log.workflow(pending.workflow)
    const grading = pending.grading && log.grading(pending.grading)
    const result = leasedResult(
      { rolloutId: id, cancelled },
      { ...pending, workflow, grading },
      services,
    )
    await trajectory.write()
    if (endedAt === undefined) {
      await queue.records.replication.confirm(pending.since)
      await queue.leases.publish(id, result, leases.retentionSeconds * 1000)
    }
    await this.#finish(pending)
  }

  /** @param last - the last delivery, if it is not recorded yet */
  async #finish(
    pending: QueuedPendingDelivery,
    last?: Parameters<RolloutRecords['finish']>[2],
  ): Promise<void> {
    const { queue, leases, services } = this.#parts
    const { id, kind, errorMessage } = pending.record
    if (errorMessage !== null) {
      // Afterwards its keys are forgotten, so that it can no longer be redacted.
      await queue.records.rewordError(id, services.secrets.redactError(errorMessage))
    }
    const keepMs = kind === 'lease' ? leases.retentionSeconds * 1000 : undefined
    await queue.records.finish(id, keepMs, last)
    // After that, because whatever fails before is done again.
    await this.#count(pending)
    services.logger.info({ rollout_id: id }, 'rollout ended')
  }

  async #count(pending: QueuedPendingDelivery): Promise<void> {
    const { policy, rollouts } = this.#parts.services.metrics
    const { record, workflow, samples, grading, times } = pending
    const partial: SamplesById = (await workflow.partialSamples) ?? new Map()
    const calls = workflow.otherCalls ?? []
    countModelCalls(policy, [...samples.values(), ...partial.values(), { calls }])
    const { failure } = grading ?? workflow
    rollouts.count(failure, phaseSeconds(record.admittedAt, times))
  }
}

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

const states = ['running', 'grading', 'allowed', 'success', 'failure', 'cancelled'] as const

/** When a rollout entered each of its states; `allowed` is when its grading was allowed. Milliseconds. */
type StateTimes = Readonly<Partial<Record<(typeof states)[number], number>>>

/** A pending delivery, as read from a record. */
interface QueuedPendingDelivery extends RolloutReport {
  /** The connection to Redis before it was read, see `Replication`. */
  readonly since: number
  readonly record: RolloutRecord
  /** Undefined unless it was requested. */
  readonly request: RolloutRequest | undefined
  readonly delivery: QueuedDelivery
  /** The body that acknowledged the completion, if it was delivered before. */
  readonly report: string | undefined
  readonly times: StateTimes
}

const small = ['delivery', 'workflow', 'report', ...states.map((state) => `at:${state}`)]
const large = ['samples', 'partial', 'grading']

/**
 * Reads the pending delivery of a rollout in one step, with samples if it has ended. Undefined when nothing
 * is pending.
 *
 * @param mayHaveEnded - a hint to read the large fields immediately
 * @param withRequest - whether to read the request of an ended rollout as well
 */
async function readPendingDelivery(
  records: RolloutRecords,
  id: string,
  mayHaveEnded: boolean,
  withRequest: boolean,
): Promise<QueuedPendingDelivery | undefined> {
  const long = mayHaveEnded ? [...large, ...(withRequest ? ['request'] : [])] : []
  const { since } = records.replication
  const read = await records.readWith(id, [...small, ...long])
  if (read === undefined) return undefined
  const { record, more } = read
  const delivery = more.open('delivery') as QueuedDelivery | undefined
  if (delivery === undefined || !record.hasWorkflow) return undefined
  const isWhole = isEnded(record.status)
  if (isWhole && !mayHaveEnded) return readPendingDelivery(records, id, true, withRequest)
  const stored = more.workflow(isWhole)
  if (stored === undefined) return undefined
  const { outcome: workflow, samples } = stored
  return {
    since,
    record,
    request: more.open('request') as RolloutRequest | undefined,
    delivery,
    workflow,
    samples,
    grading: more.grading(samples),
    report: more.open('report') as string | undefined,
    times: Object.fromEntries(
      states.flatMap((state) => {
        const at = more.get(`at:${state}`)
        return at === undefined ? [] : [[state, Number(at)] as const]
      }),
    ),
  }
}
