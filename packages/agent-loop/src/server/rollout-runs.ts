import { OsmosisError } from '@osmosis/core'
import type { CallbackDelivery, DrainedWork } from '@osmosis/server/parts'

import { RolloutRun, type AcceptedRollout, type RunServices } from './rollout-run.ts'

/** The rollouts that were accepted and are not over, delivery included. */
export class RolloutRuns implements DrainedWork {
  readonly #services: RunServices
  readonly #delivery: CallbackDelivery
  readonly #running = new Map<RolloutRun, Promise<void>>()

  constructor(services: RunServices, delivery: CallbackDelivery) {
    this.#services = services
    this.#delivery = delivery
  }

  get count(): number {
    return this.#running.size
  }

  /** Begins a rollout before it returns; `onEnd` is called when its result was delivered. */
  start(rollout: AcceptedRollout, onEnd: () => void): void {
    const run = new RolloutRun(this.#services, rollout)
    const over = this.#deliver(run).finally(() => {
      this.#running.delete(run)
      onEnd()
    })
    this.#running.set(run, over)
  }

  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values())
  }

  /** Ends what is still going on because the process is about to. */
  shutdown(): void {
    const reason = new OsmosisError('server_shutdown', 'rollout server shut down')
    for (const run of this.#running.keys()) run.abort(reason)
  }

  async #deliver(run: RolloutRun): Promise<void> {
    await this.#delivery.deliver(await run.finish())
  }
}
