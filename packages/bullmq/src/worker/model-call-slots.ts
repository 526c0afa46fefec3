import { randomUUID } from 'node:crypto'

import type { StartingModelCall } from '@osmosis/core'
import { startTimer, untilAborted, type LongTimer } from '@osmosis/core/http'
import type { Redis } from 'ioredis'

/** Time between two requests for a slot. Milliseconds; model calls take much longer. */
const lookMs = 50
/** Maximum number of slots in one request. */
const mostAtOnce = 64

/**
 * Takes free slots, up to the number of given names. A slot is a name with the time at which it expires, on
 * the clock of Redis; slots of a lost worker expire.
 */
const take = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local taken = math.min(ARGV[1] - redis.call('ZCARD', KEYS[1]), #ARGV - 2)
for i = 1, taken do redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[i + 2]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return math.max(taken, 0)`

/** Renews slots. An expired one is taken again, because its call is still running. */
const hold = `
local time = redis.call('TIME')
local until_ = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], until_, ARGV[i]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])`

/** Options of {@link ModelCallSlots}. */
export interface ModelCallSlotsOptions {
  /** Prefix of the keys. */
  readonly prefix: string
  /** Maximum concurrent calls to one policy endpoint, over all workers. */
  readonly limit: number
  /** How long a slot lasts without renewal. Milliseconds. */
  readonly holdMs: number
}

/** A call that waits for a slot, or has one. */
interface Waiting {
  readonly slot: string
  readonly begin: () => void
}

/** The calls of this process to one endpoint. */
interface Endpoint {
  readonly key: string
  readonly waiting: Set<Waiting>
  readonly held: Set<string>
  /** Whether a request for slots is in progress. */
  isRequesting: boolean
  timer: LongTimer | undefined
}

/**
 * Limits the model calls to each policy endpoint, which is the origin of its URL, over all workers of
 * a queue. Calls of one process start in their order. While Redis is unreachable none starts.
 */
export class ModelCallSlots {
  readonly #redis: Redis
  readonly #options: ModelCallSlotsOptions
  readonly #endpoints = new Map<string, Endpoint>()
  readonly #holding: NodeJS.Timeout

  constructor(redis: Redis, options: ModelCallSlotsOptions) {
    this.#redis = redis
    this.#options = options
    this.#holding = setInterval(() => this.#holdAll(), options.holdMs / 3).unref()
  }

  /**
   * Resolves when the call may start, with a function to call when it has ended.
   *
   * @throws the reason of the call's signal
   */
  async begin({ endpoint: url, signal }: StartingModelCall): Promise<() => void> {
    const endpoint = this.#endpoint(new URL(url).origin)
    const started = Promise.withResolvers<undefined>()
    const waiting = { slot: randomUUID(), begin: () => started.resolve(undefined) }
    endpoint.waiting.add(waiting)
    const release = (): void => this.#release(endpoint, waiting)
    try {
      this.#look(endpoint)
      await untilAborted(signal, () => started.promise)
      return release
    } catch (error) {
      release()
      throw error
    }
  }

  /** Requests no more slots; current ones expire. */
  close(): void {
    clearInterval(this.#holding)
    for (const { timer, waiting } of this.#endpoints.values()) {
      timer?.clear()
      waiting.clear()
    }
  }

  #endpoint(origin: string): Endpoint {
    const known = this.#endpoints.get(origin)
    if (known !== undefined) return known
    const endpoint: Endpoint = {
      key: `${this.#options.prefix}:calls:${origin}`,
      waiting: new Set(),
      held: new Set(),
      isRequesting: false,
      timer: undefined,
    }
    this.#endpoints.set(origin, endpoint)
    return endpoint
  }

  /** Requests slots for all waiting calls, unless a request is in progress. */
  #look(endpoint: Endpoint): void {
    if (endpoint.isRequesting || endpoint.waiting.size === 0) return
    endpoint.timer?.clear()
    endpoint.isRequesting = true
    this.#take(endpoint)
      .catch(() => false)
      .then((all) => {
        endpoint.isRequesting = false
        if (all) this.#look(endpoint)
        else endpoint.timer = startTimer(lookMs * (0.5 + Math.random()), () => this.#look(endpoint))
        return undefined
      })
      .catch(() => undefined)
  }

  /** @returns whether every requested slot was free */
  async #take(endpoint: Endpoint): Promise<boolean> {
    const requested = [...endpoint.waiting].slice(0, mostAtOnce)
    const names = requested.map(({ slot }) => slot)
    const { limit, holdMs } = this.#options
    const taken = Number(await this.#redis.eval(take, 1, endpoint.key, limit, holdMs, ...names))
    for (const waiting of requested.slice(0, taken)) {
      endpoint.held.add(waiting.slot)
      // A call that stopped waiting meanwhile releases its slot.
      if (endpoint.waiting.delete(waiting)) waiting.begin()
      else this.#release(endpoint, waiting)
    }
    return taken === requested.length
  }

  #release(endpoint: Endpoint, waiting: Waiting): void {
    endpoint.waiting.delete(waiting)
    if (!endpoint.held.delete(waiting.slot)) return
    this.#redis
      .zrem(endpoint.key, waiting.slot)
      .then(() => this.#look(endpoint))
      .catch(() => undefined)
  }

  #holdAll(): void {
    for (const { key, held } of this.#endpoints.values()) {
      if (held.size === 0) continue
      this.#redis.eval(hold, 1, key, this.#options.holdMs, ...held).catch(() => undefined)
    }
  }
}
