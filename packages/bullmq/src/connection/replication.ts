import { errorMessage, OsmosisError } from '@osmosis/core'
import type { Redis } from 'ioredis'

/** How long a replica may take to confirm what was stored. Milliseconds. */
const confirmMs = 500
/**
 * How long nothing is confirmed by a primary whose replicas have fallen silent, because one of them may have taken its place.
 * Sentinels end such a primary after 8 s. Milliseconds.
 */
const holdMs = 15_000
/** Time between two looks for replicas. Milliseconds. */
const lookMs = 1_000
/**
 * How long after a change of connection or primary there is a look with each question: a replica that comes back is waited for from
 * the first answer on that is told after it. Milliseconds.
 */
const settleMs = 60_000
/** Time after which a connection to such a primary is opened again: it may lead to the one that took its place. Milliseconds. */
const reopenMs = 2_500

/**
 * Confirms that what a connection has stored survives a failover, because a replica has it. A Redis without replicas confirms
 * everything at once.
 */
export class Replication {
  /** Of the Redis, without user and password. */
  readonly address: string
  readonly #redis: Redis
  /** Written with each question, because Redis answers for the last write of a connection. */
  readonly #key: string
  /** How often the connection was lost: the next one may lead to another Redis. */
  #losses = 0
  /** `alone`: nothing waits for a replica. `silent`: it had replicas, and none of them answers. */
  #standing: 'alone' | 'replicated' | 'silent' = 'alone'
  /** Whether a replica was there at the last look, and when that was. */
  #isFollowed = false
  /** Names the data of a primary, which one that takes its place changes. */
  #history = ''
  #lookedAt = Number.NEGATIVE_INFINITY
  /** When a replica has answered last. */
  #heardAt = Number.NEGATIVE_INFINITY
  #reopenedAt = Number.NEGATIVE_INFINITY
  #changedAt = Number.NEGATIVE_INFINITY
  #isWarned = false
  /** Whether this primary has told something without its replica, so that one has to be quick before it is waited for again. */
  #gaveUp = false
  #asking: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined
  readonly #listeners: ((isReplicated: boolean) => void)[] = []

  constructor(redis: Redis, key: string, address: string) {
    this.#redis = redis
    this.#key = key
    this.address = address
    redis.on('close', () => {
      this.#losses += 1
      this.#lookedAt = Number.NEGATIVE_INFINITY
      this.#changedAt = performance.now()
    })
  }

  /** The connection as it is now, for {@link Replication.confirm}. */
  get since(): number {
    return this.#losses
  }

  /** Calls a function when outcomes are told without a replica from now on, and with true when one answers again. */
  onChange(listener: (isReplicated: boolean) => void): void {
    this.#listeners.push(listener)
  }

  /**
   * Resolves when a replica has all that was read and stored on this connection since then.
   *
   * @throws OsmosisError with code `queue_unavailable` when that may be lost, so that it has to be read or stored again
   */
  async confirm(since: number): Promise<void> {
    let why = 'the connection was lost before a replica had it'
    if (since === this.#losses) {
      try {
        await this.#asked()
        if (since === this.#losses) return
      } catch (error) {
        why = errorMessage(error)
      }
    }
    // Without the error of Redis as its cause, which would say that nothing was stored.
    throw new OsmosisError(
      'queue_unavailable',
      `What the Redis of the queue at ${this.address} stores may be lost: ${why}`,
    )
  }

  /** One question for all who wait: a connection stands still while Redis waits for its replicas. */
  async #asked(): Promise<void> {
    this.#next ??= this.#asking
      .catch(() => {})
      .then(async () => {
        this.#next = undefined
        this.#asking = this.#ask()
        return this.#asking
      })
    return this.#next
  }

  async #ask(): Promise<void> {
    const losses = this.#losses
    const isSettled = performance.now() - this.#changedAt >= settleMs
    if (!isSettled || performance.now() - this.#lookedAt >= lookMs) await this.#look()
    if (this.#standing === 'alone') return
    // A primary without replicas would wait in vain.
    const isAnswered = (this.#standing === 'replicated' || this.#isFollowed) && (await this.#wait())
    // The answer is that of another Redis.
    if (losses !== this.#losses) return
    if (isAnswered) {
      this.#standing = 'replicated'
      this.#gaveUp = false
      this.#heardAt = performance.now()
      return this.#say(true)
    }
    this.#standing = 'silent'
    const now = performance.now()
    if (now - this.#heardAt < holdMs) {
      if (now - Math.max(this.#heardAt, this.#reopenedAt) > reopenMs) {
        this.#reopenedAt = now
        this.#redis.disconnect(true)
      }
      throw new Error('no replica answers')
    }
    this.#standing = 'alone'
    this.#gaveUp = true
    return this.#say(false)
  }

  #say(isReplicated: boolean): void {
    if (this.#isWarned !== isReplicated) return
    this.#isWarned = !isReplicated
    for (const listener of this.#listeners) listener(isReplicated)
  }

  async #look(): Promise<void> {
    this.#lookedAt = performance.now()
    // A user without the right to ask was told so at the start.
    const told = await this.#redis.info('replication').catch(() => '')
    // Nothing was learned, so all is as before.
    if (told === '') return
    // A replica that loads the first copy of the data answers nothing yet.
    const [, history = ''] = /^master_replid:(\w+)/m.exec(told) ?? []
    // Behind the same address is another primary, whose replicas are not known to have fallen silent.
    if (history !== this.#history) {
      this.#standing = 'alone'
      this.#gaveUp = false
      if (this.#history !== '') this.#changedAt = this.#lookedAt
    }
    this.#history = history
    const isFollowed =
      this.#gaveUp || this.#standing === 'silent'
        ? /^slave\d+:.*\bstate=online\b.*\blag=[01]\b/m
        : /^slave\d+:.*\bstate=online\b/m
    this.#isFollowed = isFollowed.test(told)
    if (this.#standing !== 'alone' || !this.#isFollowed) return
    this.#standing = 'replicated'
    this.#heardAt = this.#lookedAt
  }

  async #wait(): Promise<boolean> {
    const [, replicas] = await Promise.all([
      this.#redis.set(this.#key, 1, 'PX', holdMs),
      this.#redis.wait(1, confirmMs),
    ])
    return replicas > 0
  }
}
