import { LRUCache } from 'lru-cache'

/** Ended rollouts are remembered up to this number, however long they should be. */
const mostRemembered = 10_000

/** A rollout that a key stands for. */
export interface RolloutRecord {
  /** Of the body that began it. */
  readonly digest: string
  /** The accepting answer's body; rejects when the rollout was not accepted after all. */
  readonly accepted: Promise<string>
}

/**
 * Which rollouts were accepted, so that a trainer may ask again without running one twice: known
 * while they run, and for `ttlMs` after they ended. A rollout id and an idempotency key of the
 * same text are two different keys.
 */
export class RolloutRecords {
  readonly #running = new Map<string, RolloutRecord>()
  readonly #ended: LRUCache<string, RolloutRecord>

  constructor(ttlMs: number) {
    this.#ended = new LRUCache({ max: mostRemembered, ttl: ttlMs })
  }

  /** How many ended rollouts are remembered. */
  get endedCount(): number {
    this.#ended.purgeStale()
    return this.#ended.size
  }

  find(key: string): RolloutRecord | undefined {
    return this.#running.get(key) ?? this.#ended.get(key)
  }

  begin(key: string, record: RolloutRecord): void {
    this.#running.set(key, record)
  }

  /** Forgets a rollout that was not accepted: the next request with its key is a new one. */
  drop(key: string): void {
    this.#running.delete(key)
  }

  end(key: string): void {
    const record = this.#running.get(key)
    if (record === undefined) return
    this.#running.delete(key)
    this.#ended.set(key, record)
  }
}

/** What makes two requests the same rollout. */
export function recordKey(rolloutId: string, idempotencyKey: string | null): string {
  return idempotencyKey === null ? `rollout ${rolloutId}` : `key ${idempotencyKey}`
}
