import type { CancelDisposition } from '@osmosis/runtime/wire'
import { isEnded, type RolloutSelector, type RolloutState } from '@osmosis/runtime'
import type { RolloutControl, RolloutCounts, ServerServices } from '@osmosis/server/protocols'

import type { RolloutQueue } from '../queue/rollout-queue.ts'
import { reached, type QueuedDelivery, type QueueIntake } from './queue-intake.ts'

/** What rollouts of a queue are looked after with. */
export interface ControlParts {
  readonly queue: RolloutQueue
  readonly intake: QueueIntake
  readonly services: Pick<ServerServices, 'secrets'>
}

const unknown: RolloutState = { status: 'unknown', reward: null, errorMessage: null }

/** Looks after the rollouts of a queue, whichever front accepted them. */
export class QueueControl implements RolloutControl {
  readonly #parts: ControlParts

  constructor(parts: ControlParts) {
    this.#parts = parts
  }

  async status(rolloutId: string): Promise<RolloutState> {
    return reached(async () => {
      const { queue } = this.#parts
      const record = await queue.record(rolloutId)
      if (record === undefined) return unknown
      if (record.endedAt !== undefined) return (await queue.leases.endOf(rolloutId)) ?? unknown
      const { status, reward, errorMessage } = record
      if (!isEnded(record.status)) return { status, reward: null, errorMessage: null }
      return { status, reward, errorMessage: await this.#redacted(rolloutId, errorMessage) }
    })
  }

  async cancel(selector: RolloutSelector): Promise<Map<string, CancelDisposition>> {
    return reached(async () => this.#parts.queue.cancel(selector))
  }

  async counts(): Promise<RolloutCounts> {
    return reached(async () => {
      const { queue } = this.#parts
      const [{ queued, running, untold }, workers, retained] = await Promise.all([
        queue.counts(),
        queue.workers(),
        queue.leases.retained(),
      ])
      const maxConcurrent = workers.reduce((sum, { concurrency }) => sum + concurrency, 0)
      return {
        load: { maxConcurrent, queued, running },
        undelivered: untold,
        retainedResults: retained.count,
      }
    })
  }

  get accepting(): boolean {
    return this.#parts.intake.accepting
  }

  fence(): void {
    this.#parts.intake.fence()
  }

  get admittedIds(): readonly string[] {
    return this.#parts.intake.admittedIds
  }

  /** The keys of a rollout are known at the front that tells its results, which may be another one. */
  async #redacted(rolloutId: string, text: string | null): Promise<string | null> {
    if (text === null) return null
    const { queue, services } = this.#parts
    const delivery = (await queue.records.delivery(rolloutId)) as QueuedDelivery | undefined
    const forget = services.secrets.add(delivery?.apiKey, delivery?.targets?.apiKey)
    try {
      return services.secrets.redactError(text)
    } finally {
      forget()
    }
  }
}
