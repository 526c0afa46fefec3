import { LRUCache } from 'lru-cache'

const retentionMs = 15 * 60_000
const mostRemembered = 10_000

/**
 * Which rollouts were accepted and with what body, so that a controller may send one again
 * without running it twice: known while it runs and for 15 minutes after.
 */
export class AdmittedRollouts {
  readonly #running = new Map<string, string>()
  readonly #ended = new LRUCache<string, string>({ max: mostRemembered, ttl: retentionMs })

  /** Whether a rollout with this id is `new`, the `same` as a known one, or `different` from it. */
  compare(rolloutId: string, digest: string): 'new' | 'same' | 'different' {
    const known = this.#running.get(rolloutId) ?? this.#ended.get(rolloutId)
    if (known === undefined) return 'new'
    return known === digest ? 'same' : 'different'
  }

  started(rolloutId: string, digest: string): void {
    this.#running.set(rolloutId, digest)
  }

  ended(rolloutId: string): void {
    const digest = this.#running.get(rolloutId)
    if (digest === undefined) return
    this.#running.delete(rolloutId)
    this.#ended.set(rolloutId, digest)
  }
}
