import { OsmosisError } from '@osmosis/core'
import type { Logger } from '@osmosis/server'
import { toLeasedEnd, type LeaseSettings } from '@osmosis/server/protocols'

import type { RolloutQueue } from '../queue/rollout-queue.ts'

/** What leases are kept with. */
export interface KeeperParts {
  readonly queue: RolloutQueue
  readonly leases: LeaseSettings
  readonly logger: Logger
}

/** Between two looks for leases that have lapsed. Milliseconds. */
const everyMs = 500

/** Ends the rollouts that nobody asks for, whichever front they were asked for at. */
export class LeaseKeeper {
  readonly #parts: KeeperParts
  #timer: NodeJS.Timeout | undefined
  #sweeping = false
  #lapsed = 0
  /** Nobody could renew a lease while Redis was away. */
  #notBefore = 0

  constructor(parts: KeeperParts) {
    this.#parts = parts
  }

  /** How many rollouts this front has ended. */
  get lapsedCount(): number {
    return this.#lapsed
  }

  start(): void {
    this.#timer = setInterval(() => void this.#sweep(), everyMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #sweep(): Promise<void> {
    if (this.#sweeping) return
    this.#sweeping = true
    try {
      const lapsed = await this.#parts.queue.lapsedLeases()
      if (performance.now() < this.#notBefore) return
      for (const rolloutId of lapsed) await this.#lapse(rolloutId)
    } catch {
      this.#notBefore = performance.now() + this.#parts.leases.leaseSeconds * 1000
    } finally {
      this.#sweeping = false
    }
  }

  async #lapse(rolloutId: string): Promise<void> {
    const { queue, leases, logger } = this.#parts
    const message = 'polling lease expired'
    const { warning: _, ...end } = toLeasedEnd(rolloutId, {
      status: 'failure',
      failure: { message, category: 'lease_expired' },
      samples: new Map(),
    })
    if (!(await queue.leases.publish(rolloutId, end, leases.retentionSeconds * 1000))) return
    this.#lapsed += 1
    logger.warn({ rollout_id: rolloutId }, message)
    await queue.cancel({ ids: [rolloutId] }, new OsmosisError('lease_expired', message))
  }
}
