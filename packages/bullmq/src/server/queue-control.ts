import { isEnded, type RolloutSelector, type RolloutState } from '@osmosis/protocol'
import type { CancelDisposition } from '@osmosis/protocol/wire'
import type {
  RolloutControl,
  RolloutCounts,
  ServerMetrics,
  ServerServices,
} from '@osmosis/server/protocols'

import type { QueueCounts, RolloutQueue } from '../queue/rollout-queue.ts'
import type { QueueWorker } from '../queue/worker-heartbeats.ts'
import { reached, type QueuedDelivery, type QueueAdmission } from './queue-admission.ts'
import type { LeaseKeeper } from './queue-leases.ts'

/** Dependencies of a queue control. */
export interface ControlParts {
  readonly queue: RolloutQueue
  readonly admission: QueueAdmission
  /** Digest of the code that may execute accepted rollouts. */
  readonly code: string
  readonly services: Pick<ServerServices, 'secrets'>
}

const unknown: RolloutState = { status: 'unknown', reward: null, errorMessage: null }

/** Status, cancelling and counts of all rollouts of a queue, on any server. */
export class QueueControl implements RolloutControl {
  readonly #parts: ControlParts

  constructor(parts: ControlParts) {
    this.#parts = parts
  }

  async status(rolloutId: string): Promise<RolloutState> {
    return reached(async () => {
      const { queue } = this.#parts
      const { since } = queue.records.replication
      const record = await queue.record(rolloutId)
      if (record === undefined) return unknown
      if (isEnded(record.status)) await queue.records.replication.confirm(since)
      if (record.endedAt !== undefined) return (await queue.leases.endOf(rolloutId)) ?? unknown
      const { status, reward, errorMessage } = record
      if (!isEnded(record.status)) return { status, reward: null, errorMessage: null }
      return { status, reward, errorMessage: await this.#redacted(rolloutId, errorMessage) }
    })
  }

  async cancel(selector: RolloutSelector): Promise<Map<string, CancelDisposition>> {
    const { queue, code } = this.#parts
    return reached(async () => queue.cancel(selector, undefined, code))
  }

  async counts(): Promise<RolloutCounts> {
    return reached(async () => {
      const { queue } = this.#parts
      // A Redis that stores nothing answers questions all the same.
      if (queue.trouble !== undefined) throw queue.trouble
      const [{ queued, running, undelivered }, workers, retained] = await Promise.all([
        queue.counts(),
        queue.workers(),
        queue.leases.retained(),
      ])
      const maxConcurrent = sum(workers, ({ concurrency }) => concurrency)
      return {
        load: { maxConcurrent, queued, running },
        undelivered: undelivered,
        retainedResults: retained.count,
      }
    })
  }

  get accepting(): boolean {
    return this.#parts.admission.accepting
  }

  fence(): void {
    this.#parts.admission.fence()
  }

  get admittedIds(): readonly string[] {
    return this.#parts.admission.admittedIds
  }

  /** Reads the keys to redact from the record, because another server may have accepted the rollout. */
  async #redacted(rolloutId: string, text: string | null): Promise<string | null> {
    if (text === null) return null
    const { queue, services } = this.#parts
    const read = await queue.records.readWith(rolloutId, ['delivery'])
    const delivery = read?.more.open('delivery') as QueuedDelivery | undefined
    const forget = services.secrets.add(delivery?.apiKey, delivery?.targets?.apiKey)
    try {
      return services.secrets.redactError(text)
    } finally {
      forget()
    }
  }
}

/** A snapshot of a queue. */
interface QueueLook {
  readonly counts: QueueCounts
  readonly workers: readonly QueueWorker[]
  readonly retained: { readonly count: number; readonly bytes: number }
}

/** How long one snapshot serves all metrics that are read together. Milliseconds. */
const freshMs = 500

/**
 * Exports the metrics of a queue, which are the same on all of its servers.
 *
 * @returns a function that reads how many rollouts of the queue are in flight; NaN without Redis
 */
export function showQueue(
  metrics: ServerMetrics,
  queue: RolloutQueue,
  keeper: LeaseKeeper,
): () => Promise<number> {
  let lookedAt = Number.NEGATIVE_INFINITY
  let looking: Promise<QueueLook | undefined> | undefined
  const look = async (): Promise<QueueLook | undefined> => {
    if (looking === undefined || performance.now() - lookedAt > freshMs) {
      lookedAt = performance.now()
      looking = lookAt(queue).catch(() => undefined)
    }
    return looking
  }
  /** A gauge with the value NaN while Redis is unreachable. */
  const gauge = (name: string, help: string, read: (look: QueueLook) => number): void =>
    metrics.gauge(name, help, async () => {
      const seen = await look()
      return seen === undefined ? Number.NaN : read(seen)
    })
  metrics.gauge('osmosis_queue_up', '1 when the Redis of the queue answers, else 0.', async () =>
    (await look()) === undefined ? 0 : 1,
  )
  metrics.gauges(
    'osmosis_rollouts',
    'Rollouts of the queue: queued, running on a worker, or between its workflow and the end of its grading.',
    'state',
    async () => {
      const { queued, running, grading } = (await look())?.counts ?? {}
      return queued === undefined ? {} : { queued, running: running ?? 0, grading: grading ?? 0 }
    },
  )
  gauge('osmosis_rollout_slots', 'Maximum concurrent rollouts of all workers.', ({ workers }) =>
    sum(workers, ({ concurrency }) => concurrency),
  )
  gauge('osmosis_workers', 'Workers that are alive.', ({ workers }) => workers.length)
  gauge('osmosis_worker_rollouts', 'Rollouts in the workers.', ({ workers }) =>
    sum(workers, ({ active }) => active),
  )
  gauge(
    'osmosis_worker_loop_delay_seconds',
    'Longest recent delay of the event loop of a worker.',
    ({ workers }) => Math.max(0, ...workers.map(({ loopDelayMs }) => loopDelayMs)) / 1000,
  )
  gauge(
    'osmosis_queue_undelivered',
    'Rollouts with pending outcomes.',
    ({ counts }) => counts.undelivered,
  )
  gauge(
    'osmosis_leases_held',
    'Leased rollouts that are in progress.',
    ({ counts }) => counts.leased,
  )
  gauge(
    'osmosis_lease_results',
    'Results that are stored for their callers.',
    ({ retained }) => retained.count,
  )
  gauge(
    'osmosis_lease_result_bytes',
    'Size of the results that are stored for their callers.',
    ({ retained }) => retained.bytes,
  )
  metrics.counter(
    'osmosis_leases_lapsed_total',
    'Rollouts that ended because their result was not requested in time.',
    () => keeper.lapsedCount,
  )
  return async () => (await look())?.counts.inFlight ?? Number.NaN
}

async function lookAt(queue: RolloutQueue): Promise<QueueLook> {
  const [counts, workers, retained] = await Promise.all([
    queue.counts(),
    queue.workers(),
    queue.leases.retained(),
  ])
  return { counts, workers, retained }
}

function sum(workers: readonly QueueWorker[], of: (worker: QueueWorker) => number): number {
  return workers.reduce((total, worker) => total + of(worker), 0)
}
