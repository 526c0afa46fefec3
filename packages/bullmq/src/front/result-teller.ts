import type { GradingOutcome, RolloutObserver, RolloutRequest } from '@osmosis/core'
import { inTrace } from '@osmosis/core/http'
import {
  LeasedDelivery,
  RolloutCallbacks,
  type TrajectoryFiles,
  type LeaseSettings,
  type RolloutTrajectory,
  type ServerServices,
} from '@osmosis/server/internal'

import type { RolloutQueue } from '../queue/rollout-queue.ts'
import { hasEnded, type RolloutRecord } from '../records/rollout-record.ts'
import type { KeptWorkflow } from '../records/rollout-records.ts'
import type { Samples } from '../records/sent-outcome.ts'
import { KeptCallbacks } from './kept-callbacks.ts'
import type { FrontRecords, StateTimes } from './front-records.ts'
import { QueuedEnd } from './queued-end.ts'
import type { QueuedDelivery } from './queue-intake.ts'

/** Between two notes of what is being told. Milliseconds. */
const everyMs = 5_000

/** What results are told with. */
export interface TellerParts {
  readonly queue: RolloutQueue
  readonly frontRecords: FrontRecords
  readonly leases: LeaseSettings
  readonly files: TrajectoryFiles
  readonly services: ServerServices
  /** How long a callback is tried again after it was given up. Milliseconds since its acceptance. */
  readonly undeliveredMs: number
}

/** What is known of a rollout when something of it is told. */
interface Known {
  readonly record: RolloutRecord
  readonly request: RolloutRequest
  readonly delivery: QueuedDelivery
  readonly workflow: KeptWorkflow
  /** Undefined until there is one. */
  readonly grading: GradingOutcome | undefined
  /** What the acknowledgement of the completion said, if that was told before. */
  readonly report: string | undefined
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
    this.#timer = setInterval(() => {
      if (this.#telling.size === 0) return
      // What fails is done the next time.
      this.#parts.frontRecords.beingTold([...this.#telling]).catch(() => {})
    }, everyMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** @throws Error when something is left to be told later */
  async tell(rolloutId: string): Promise<void> {
    this.#telling.add(rolloutId)
    try {
      await this.#tell(rolloutId)
    } finally {
      this.#telling.delete(rolloutId)
    }
  }

  async #tell(rolloutId: string): Promise<void> {
    const known = await this.#read(rolloutId)
    if (known === undefined) return
    const { request, delivery } = known
    const { secrets } = this.#parts.services
    const forgetSecrets = secrets.add(request.apiKey, delivery.targets?.apiKey)
    try {
      await inTrace(request.traceHeaders ?? {}, async () => {
        const trajectory = this.#parts.files.begin(request, delivery.extraFields)
        if (delivery.targets === undefined) await this.#tellLease(known, trajectory)
        else await this.#tellCallbacks(known, delivery.targets, trajectory)
      })
    } finally {
      forgetSecrets()
    }
  }

  /** Undefined when there is nothing to tell, yet or any more. */
  async #read(rolloutId: string): Promise<Known | undefined> {
    const { queue, frontRecords } = this.#parts
    const { records } = queue
    // Sent together, and answered in this order: what the record says has happened is there.
    const [record, entry, workflow, graded, report] = await Promise.all([
      records.read(rolloutId),
      records.entry(rolloutId),
      records.workflow(rolloutId),
      records.grading(rolloutId),
      frontRecords.report(rolloutId),
    ])
    if (record === undefined || entry === undefined || workflow === undefined) return undefined
    const { request } = entry
    const delivery = entry.delivery as QueuedDelivery
    const grading = graded ?? ungraded(workflow, request)
    return { record, request, delivery, workflow, grading, report }
  }

  async #tellCallbacks(
    known: Known,
    targets: NonNullable<QueuedDelivery['targets']>,
    trajectory: RolloutTrajectory,
  ): Promise<void> {
    const { queue, services, frontRecords, undeliveredMs } = this.#parts
    const { record, request, report } = known
    const isLastTry = Date.now() - record.admittedAt > undeliveredMs
    const kept = new KeptCallbacks(record.id, queue.records, isLastTry)
    if (report !== undefined) trajectory.acknowledged(report)
    let said = ''
    const onAcknowledged = (text: string): void => {
      trajectory.acknowledged(text)
      said = text
    }
    const callbacks = new RolloutCallbacks(
      { ...targets, onAcknowledged },
      { ...services, record: kept },
    )
    // What was told is in the log already.
    const isTold = record.told['completion'] !== undefined
    const observer: RolloutObserver = {
      workflowFinished: async (outcome) => {
        if (!isTold) await callbacks.workflowFinished(outcome)
      },
      gradingFinished: async (outcome) => callbacks.gradingFinished(outcome),
    }
    await this.#replay(known, trajectory.observing(observer))
    kept.assertKept()
    if (hasEnded(record)) {
      await trajectory.write()
      if (kept.gaveUp) {
        await frontRecords.notTold(record.id)
        throw new Error('not every callback was acknowledged')
      }
      await this.#finish(known)
      return
    }
    // Whatever became of the completion: it is tried again with the grading.
    if (said !== '') await frontRecords.keepReport(record.id, said)
    if (request.grade) await queue.records.allowGrading(record.id)
  }

  async #tellLease(known: Known, trajectory: RolloutTrajectory): Promise<void> {
    const { services, frontRecords, leases } = this.#parts
    const { record, request } = known
    if (!hasEnded(record)) return
    const keep = (): Promise<void> => trajectory.write()
    const end = new QueuedEnd(record, async (decided) =>
      frontRecords.publish(record.id, decided, leases.retentionSeconds * 1000),
    )
    const { logger, secrets } = services
    const options = { graded: request.grade, keep, logger, secrets, stop: nothing }
    await this.#replay(known, trajectory.observing(new LeasedDelivery(end, options)))
    end.assertPublished()
    await trajectory.write()
    await this.#finish(known)
  }

  /** Reports what happened, as the backend would have that ran the rollout. */
  async #replay({ workflow, grading }: Known, observer: RolloutObserver): Promise<void> {
    await observer.workflowFinished(workflow.outcome, workflow.samples)
    if (grading !== undefined) await observer.gradingFinished(grading)
  }

  async #finish(known: Known): Promise<void> {
    const { queue, leases, services, frontRecords } = this.#parts
    const { record } = known
    await this.#count(known)
    if (record.errorMessage !== null) {
      // Its keys are forgotten with it.
      await frontRecords.rewordError(record.id, services.secrets.redactError(record.errorMessage))
    }
    const { retentionSeconds } = leases
    await queue.records.finish(
      record.id,
      record.kind === 'lease' ? retentionSeconds * 1000 : undefined,
    )
    services.logger.info({ rollout_id: record.id }, 'rollout ended')
  }

  async #count({ record, workflow, grading }: Known): Promise<void> {
    const { frontRecords, services } = this.#parts
    const { metrics } = services
    const { outcome, samples } = workflow
    const partial: Samples = (await outcome.partialSamples) ?? new Map()
    for (const { calls } of [...samples.values(), ...partial.values()]) {
      for (const call of calls) metrics.policy.count(call)
    }
    for (const call of outcome.otherCalls ?? []) metrics.policy.count(call)
    const times = await frontRecords.times(record.id)
    const failure = grading === undefined ? outcome.failure : grading.failure
    metrics.rollouts.count(failure, phaseSeconds(record.admittedAt, times))
  }
}

/** Whoever decides the end of a lease early stops its rollout as well. */
function nothing(): void {}

/** A workflow that failed is reported again as the reason why nothing was graded. */
function ungraded(
  { outcome: { failure } }: KeptWorkflow,
  { grade }: RolloutRequest,
): GradingOutcome | undefined {
  if (failure === null || !grade) return undefined
  return { status: 'failure', failure, samples: new Map() }
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
