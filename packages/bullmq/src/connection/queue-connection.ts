import type { ConnectionOptions } from 'node:tls'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { isLoopback } from '@osmosis/core/http'
import { parseRedisAddress, redisPlace, type RedisAddress } from '@osmosis/protocol/wire'
import { Redis, ReplyError } from 'ioredis'

import { hintFor, hungUp, isReset, withoutIoredis } from './connection-errors.ts'
import { QueueKeys } from './queue-keys.ts'
import { settingsWarnings } from './redis-settings.ts'
import {
  answerMs,
  isFromAnother,
  nextTry,
  reopenWhenDeaf,
  sendTogether,
} from './steady-connection.ts'

/** The address of a queue. */
export interface QueueConnectionOptions {
  /**
   * `redis://` or `rediss://`, with user, password and database where there are any. The password may contain every
   * character; `%40` is one of them, as in every URL. `redis+sentinel://host:port,host:port/name` is the primary that
   * Sentinels know by this name; user and password are those of the Redis.
   */
  readonly url: string
  /** Password of the Sentinels. Default: they need none. */
  readonly sentinelPassword?: string | undefined
  /** Prefix of all keys of the queue; queues with different prefixes are independent. Default: `osmosis`. */
  readonly prefix?: string | undefined
  /** Keys that encrypt stored values. Default: none, which is accepted on loopback. */
  readonly keys?: QueueKeys | undefined
  /** Allows plain text storage of policy and callback keys outside of loopback. Default: false. */
  readonly allowPlainKeys?: boolean | undefined
  /** For `rediss://`: certificates, in the form of node:tls. */
  readonly tls?: ConnectionOptions | undefined
}

/** How long Redis remembers the keys of a queue without servers and workers. Milliseconds. */
const keysKnownMs = 15 * 60_000

// Uses the same commands as all other scripts, so missing permissions are reported at the start.
const agree = `
redis.call('TIME')
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
return redis.call('GET', KEYS[1])`

/** The Redis of a queue. The caller closes it. */
export class QueueConnection {
  readonly prefix: string
  readonly keys: QueueKeys
  /** Without user and password. */
  readonly address: string
  readonly #redis: RedisAddress
  readonly #sentinelPassword: string | undefined
  readonly #tls: ConnectionOptions | undefined
  readonly #isReadable: boolean
  readonly #opened: Redis[] = []
  /** Why the last attempt to connect failed; undefined once one succeeded. */
  #trouble: unknown

  /** @throws OsmosisError with code `invalid_config` */
  constructor(options: QueueConnectionOptions) {
    const { url, prefix = 'osmosis', keys = new QueueKeys(), allowPlainKeys = false, tls } = options
    const redis = parseRedisAddress(url)
    if (typeof redis === 'string') {
      throw new OsmosisError('invalid_config', `The address of a queue ${redis}.`)
    }
    this.#redis = redis
    this.#sentinelPassword = options.sentinelPassword
    this.#tls = tls
    this.prefix = prefix
    this.keys = keys
    this.address = redisPlace(redis)
    this.#isReadable = !keys.encrypts && !redis.hosts.every(({ host }) => isLoopback(host))
    if (!this.#isReadable || allowPlainKeys) return
    throw new OsmosisError(
      'invalid_config',
      `Keys of policies and callbacks would be readable in the Redis at ${this.address}. Give servers and workers a file of queue keys (OSMOSIS_QUEUE_KEY_FILE), or allow plain keys (OSMOSIS_ALLOW_PLAIN_KEYS=1).`,
    )
  }

  /** A connection whose commands fail immediately while Redis is unreachable. */
  failing(): Redis {
    return this.#open({
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      commandTimeout: answerMs,
      lazyConnect: true,
    })
  }

  /** A connection whose commands wait until Redis is reachable. */
  waiting(): Redis {
    return this.#open({ maxRetriesPerRequest: null })
  }

  /**
   * Receives the messages of a channel, except those sent while Redis is unreachable.
   *
   * @returns a function that ends the subscription
   * @throws OsmosisError with code `queue_unavailable` when Redis refuses it
   */
  async subscribe(channel: string, onMessage: (message: string) => void): Promise<() => void> {
    // ioredis would resubscribe on its own, with a rejection that no code handles.
    const redis = this.#open({ maxRetriesPerRequest: null, autoResubscribe: false })
    const subscribed = Promise.withResolvers<void>()
    redis.on('ready', () => {
      redis.subscribe(channel).then(
        () => subscribed.resolve(),
        (error: unknown) => {
          // Of a connection that is lost, the next one subscribes.
          if (error instanceof ReplyError) subscribed.reject(this.unavailable(error))
        },
      )
    })
    redis.on('message', (_channel, message) => onMessage(message))
    const end = (): void => {
      const at = this.#opened.indexOf(redis)
      if (at >= 0) this.#opened.splice(at, 1)
      redis.disconnect()
    }
    try {
      await subscribed.promise
    } catch (error) {
      end()
      throw error
    }
    return end
  }

  /**
   * Checks that Redis answers, stores data durably, and that its queue uses these keys.
   *
   * @returns warnings, one sentence each
   * @throws OsmosisError with code `queue_unavailable` or `invalid_config`
   */
  async check(redis: Redis): Promise<string[]> {
    const plain = this.#isReadable
      ? [
          `Keys of policies and callbacks are readable in the Redis at ${this.address}. Give servers and workers a file of queue keys.`,
        ]
      : []
    try {
      if (redis.status === 'wait') await this.#connect(redis)
      // First: a node of a cluster would refuse the keys with words that do not name the cause.
      const warnings = await settingsWarnings(redis, this.address)
      await this.#agreeOnKeys(redis)
      await this.#tryChannels(redis)
      return [...plain, ...warnings]
    } catch (error) {
      if (isOsmosisError(error)) throw error
      // The error of ioredis says only that the connection is missing.
      const isMissing = error instanceof Error && error.name === 'MaxRetriesPerRequestError'
      const isHungUp = this.#trouble === undefined ? isMissing : isReset(this.#trouble)
      if (isHungUp) this.#trouble = hungUp(this.#redis)
      throw this.unavailable(this.#trouble ?? error)
    }
  }

  /** Resolves when it is connected for the first time. Later, Sentinels that do not answer are asked again and again. */
  async #connect(redis: Redis): Promise<void> {
    const { promise: failed, reject } = Promise.withResolvers<never>()
    if (this.#redis.name !== undefined) redis.once('error', reject)
    try {
      await Promise.race([redis.connect(), failed])
    } finally {
      redis.off('error', reject)
    }
  }

  /** Renews the record of the queue's keys, which later processes compare with their own. */
  async holdKeys(redis: Redis): Promise<void> {
    await redis.set(this.#keysAt, this.keys.seal(this.prefix, this.#keysAt), 'PX', keysKnownMs)
  }

  /** A failure of Redis as an error of the queue. */
  unavailable(cause: unknown): OsmosisError {
    // A command without a connection does not know why there is none.
    const told = cause instanceof ReplyError ? cause : (this.#trouble ?? cause)
    const why = told instanceof Error ? told.message : String(told)
    const what = told instanceof ReplyError ? 'refuses' : 'does not answer'
    const hint = hintFor(told)
    return new OsmosisError(
      'queue_unavailable',
      `The Redis of the queue at ${this.address} ${what}: ${why}${hint === undefined ? '' : `. ${hint}`}`,
      { cause },
    )
  }

  /** Closes all its connections at once. */
  close(): void {
    for (const redis of this.#opened.splice(0)) {
      // Disconnecting a connection that BullMQ has closed would keep the process alive for two seconds.
      if (redis.status !== 'end') redis.disconnect()
    }
  }

  get #keysAt(): string {
    return `${this.prefix}:keys`
  }

  /** A process with other keys would store outcomes that no other process can read. */
  async #agreeOnKeys(redis: Redis): Promise<void> {
    const own = this.keys.seal(this.prefix, this.#keysAt)
    const known = await redis.callBuffer('EVAL', agree, 1, this.#keysAt, own, keysKnownMs)
    try {
      this.keys.open(known as Buffer, this.#keysAt)
    } catch (cause) {
      throw new OsmosisError(
        'invalid_config',
        `The queue ${this.prefix} at ${this.address} is encrypted with a key that is not among those of this process, or only one of the two has keys. Servers and workers of a queue need the same file of queue keys. To change to other keys, stop all of them, and wait ${keysKnownMs / 60_000} minutes or choose another prefix.`,
        { cause },
      )
    }
    await this.holdKeys(redis)
  }

  /** Tries what `agree` does not: without these rights a worker would wait for ever. */
  async #tryChannels(redis: Redis): Promise<void> {
    // Outcomes wait for replicas, which may come later.
    await redis.wait(0, 1)
    const channel = `${this.prefix}:server:rights`
    await redis
      .multi()
      .publish(channel, '')
      .exec()
      .catch((error: Error & { previousErrors?: readonly Error[] }) => {
        // The error itself says only that a command of the transaction failed.
        throw error.previousErrors?.[0] ?? error
      })
    const end = await this.subscribe(channel, () => {})
    end()
  }

  /** Where a connection leads. Each asks the Sentinels again where the primary is. */
  #place(): object {
    const { hosts, name, tls } = this.#redis
    if (name === undefined) return hosts[0]
    return {
      sentinels: [...hosts],
      name,
      ...(this.#sentinelPassword === undefined ? {} : { sentinelPassword: this.#sentinelPassword }),
      ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: { ...this.#tls } } : {}),
      sentinelRetryStrategy: nextTry,
      sentinelCommandTimeout: answerMs,
      role: 'master',
    }
  }

  #open(options: {
    readonly enableOfflineQueue?: boolean
    readonly maxRetriesPerRequest: number | null
    readonly commandTimeout?: number
    readonly lazyConnect?: boolean
    readonly autoResubscribe?: boolean
  }): Redis {
    const { tls, user, password, database } = this.#redis
    const redis = new Redis({
      ...options,
      ...this.#place(),
      db: database,
      ...(user === undefined ? {} : { username: user }),
      ...(password === undefined ? {} : { password }),
      ...(tls ? { tls: { ...this.#tls } } : {}),
      connectTimeout: answerMs,
      retryStrategy: nextTry,
      reconnectOnError: isFromAnother,
    })
    // Commands throw the errors; without a listener ioredis prints them.
    redis.on('error', (error) => {
      this.#trouble = withoutIoredis(error, this.#redis)
    })
    redis.on('ready', () => {
      this.#trouble = undefined
    })
    redis.on('connect', () => sendTogether(redis.stream))
    this.#opened.push(redis)
    reopenWhenDeaf(redis)
    // BullMQ duplicates the connection for blocking commands, and does not close it while Redis is unreachable.
    const duplicate = redis.duplicate.bind(redis)
    redis.duplicate = (override) => {
      const second = duplicate(override)
      this.#opened.push(second)
      reopenWhenDeaf(second)
      return second
    }
    return redis
  }
}
