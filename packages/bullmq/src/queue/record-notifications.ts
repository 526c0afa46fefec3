import type { Redis } from 'ioredis'

type Subscribe = (onMessage: (message: string) => void) => Promise<unknown>

/** Time between two checks of all watched records, because messages may be lost. Milliseconds. */
const sweepMs = 2_000

/** Notifies callers that wait for a change of a rollout; each then reads the record. */
export class Wakes {
  readonly #listeners = new Map<string, Set<() => void>>()
  readonly #redis: Redis
  readonly #subscribe: Subscribe
  readonly #versions = new Map<string, string>()
  readonly #key: (id: string) => string
  readonly #timer: NodeJS.Timeout
  /** Whether it has subscribed, or is closed. */
  #isSubscribed = false

  /**
   * @param redis - for the sweep
   * @param subscribe - subscribes to the messages of scripts
   */
  constructor(redis: Redis, subscribe: Subscribe, key: (id: string) => string) {
    this.#redis = redis
    this.#subscribe = subscribe
    this.#key = key
    this.#timer = setInterval(() => {
      this.#sweep().catch(() => {})
    }, sweepMs)
    this.#timer.unref()
  }

  /** @returns a function that removes the listener */
  listen(id: string, listener: () => void): () => void {
    this.#subscribeOnce()
    const listeners = this.#listeners.get(id) ?? new Set()
    this.#listeners.set(id, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size > 0 || this.#listeners.get(id) !== listeners) return
      this.#listeners.delete(id)
      this.#versions.delete(id)
    }
  }

  close(): void {
    this.#isSubscribed = true
    clearInterval(this.#timer)
  }

  /** Only once a caller waits: most processes have none, and there are many messages. */
  #subscribeOnce(): void {
    if (this.#isSubscribed) return
    this.#isSubscribed = true
    const onMessage = (message: string): void => {
      const space = message.indexOf(' ')
      this.#wake(message.slice(space + 1))
    }
    this.#subscribe(onMessage)
      // Messages before the subscription were missed.
      .then(() => this.#wakeAll())
      .catch(() => {})
  }

  #wakeAll(): void {
    for (const id of this.#listeners.keys()) this.#wake(id)
  }

  #wake(id: string): void {
    for (const listener of this.#listeners.get(id) ?? []) listener()
  }

  async #sweep(): Promise<void> {
    const ids = [...this.#listeners.keys()]
    if (ids.length === 0) return
    const pipeline = this.#redis.pipeline()
    for (const id of ids) pipeline.hget(this.#key(id), 'version')
    const replies = (await pipeline.exec()) ?? []
    for (const [n, id] of ids.entries()) {
      const [error, value] = replies[n] ?? []
      const version = String(value)
      if (error || this.#versions.get(id) === version) continue
      this.#versions.set(id, version)
      this.#wake(id)
    }
  }
}
