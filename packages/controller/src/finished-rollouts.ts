import type { CallbackRecord } from './rollout-session.ts'

const keepMs = 15 * 60_000
const keepCount = 10_000

/** Remembers rollouts that ended: for 15 minutes, and not more than 10 000 of them. */
export class FinishedRollouts {
  // A Map iterates in the order of insertion, so the oldest comes first.
  readonly #byId = new Map<string, { record: CallbackRecord; until: number }>()

  add(rolloutId: string, record: CallbackRecord): void {
    const now = performance.now()
    this.#byId.set(rolloutId, { record, until: now + keepMs })
    for (const [oldest, { until }] of this.#byId) {
      if (until > now && this.#byId.size <= keepCount) break
      this.#byId.delete(oldest)
    }
  }

  get(rolloutId: string): CallbackRecord | undefined {
    const entry = this.#byId.get(rolloutId)
    return entry !== undefined && entry.until > performance.now() ? entry.record : undefined
  }
}
