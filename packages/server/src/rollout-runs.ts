import { errorMessage, type ExecutionBackend, type RolloutRequest } from '@osmosis/core'

import {
  RolloutCallbacks,
  type CallbackServices,
  type CallbackTargets,
} from './rollout-callbacks.ts'

/** The rollouts that have been handed to the backend and are not over, delivery included. */
export class RolloutRuns {
  readonly #backend: ExecutionBackend
  readonly #services: CallbackServices
  readonly #running = new Set<Promise<void>>()

  constructor(backend: ExecutionBackend, services: CallbackServices) {
    this.#backend = backend
    this.#services = services
  }

  /** How many there are. */
  get count(): number {
    return this.#running.size
  }

  /** Hands a rollout over before it returns; `onEnd` is called when its last callback is done. */
  start(request: RolloutRequest, targets: CallbackTargets, onEnd: () => void): void {
    const run = this.#run(request, new RolloutCallbacks(targets, this.#services)).finally(() => {
      this.#running.delete(run)
      onEnd()
    })
    this.#running.add(run)
  }

  /** Resolves when all that are running now, and those they were joined by, are over. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  // Never rejects.
  async #run(request: RolloutRequest, callbacks: RolloutCallbacks): Promise<void> {
    const { rolloutId } = request
    try {
      await this.#backend.execute(request, callbacks)
      if (callbacks.complete) return
      await callbacks.backendEnded(new Error('The backend ended the rollout without a result.'))
    } catch (error) {
      this.#services.logger.error(
        { rollout_id: rolloutId, error },
        `backend failed: ${errorMessage(error)}`,
      )
      await callbacks.backendEnded(error)
    }
  }
}
