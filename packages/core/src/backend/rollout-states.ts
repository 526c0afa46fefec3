import type { RolloutState } from './execution-backend.ts'

const retentionMs = 15 * 60_000
const mostRemembered = 10_000

/** How rollouts ended, for later queries: bounded in time and number. */
export class RolloutStates {
  // Oldest first: an id is only ever added, so the order of insertion is the order of expiry.
  readonly #states = new Map<string, { state: RolloutState; expiresAt: number }>()

  remember(rolloutId: string, state: RolloutState): void {
    this.#states.delete(rolloutId)
    this.#states.set(rolloutId, { state, expiresAt: performance.now() + retentionMs })
    this.#forget()
  }

  get(rolloutId: string): RolloutState | undefined {
    this.#forget()
    return this.#states.get(rolloutId)?.state
  }

  #forget(): void {
    const now = performance.now()
    for (const [id, { expiresAt }] of this.#states) {
      if (expiresAt > now && this.#states.size <= mostRemembered) return
      this.#states.delete(id)
    }
  }
}
