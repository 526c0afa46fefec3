import type { ConnectionOptions } from 'node:tls'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { Redis, ReplyError } from 'ioredis'

import { QueueKeys } from './queue-keys.ts'

/** Where a queue is. */
export interface QueueConnectionOptions {
  /** `redis://` or `rediss://`, with user, password and database where there are any. */
  readonly url: string
  /**
   * Begins all keys of the queue; queues with different prefixes are independent. Default:
   * `osmosis`. With Redis Cluster it is in braces.
   */
  readonly prefix?: string | undefined
  /** Encrypts stored values. Default: none, which is accepted on loopback. */
  readonly keys?: QueueKeys | undefined
  /** Accepts that keys of policies and callbacks are stored in plain text elsewhere as well. Default: false. */
  readonly allowPlainKeys?: boolean | undefined
  /** For `rediss://`: certificates, as node:tls has them. */
  readonly tls?: ConnectionOptions | undefined
}

/** For an answer of a Redis that is there. Milliseconds. */
const answerMs = 5_000
const oldestVersion = [6, 2] as const
const hungUp =
  'it closes the connection. One that speaks TLS has an address that begins with rediss://.'
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
  readonly #options: QueueConnectionOptions
  readonly #isReadable: boolean
  readonly #opened: Redis[] = []
  /** Why the last attempt to connect failed. */
  #trouble: unknown

  /** @throws OsmosisError with code `invalid_config` */
  constructor(options: QueueConnectionOptions) {
    const { url, prefix = 'osmosis', keys = new QueueKeys(), allowPlainKeys = false } = options
    const parsed = URL.canParse(url) ? new URL(url) : undefined
    if (parsed === undefined || !/^rediss?:$/.test(parsed.protocol)) {
      throw new OsmosisError(
        'invalid_config',
        'The address of a queue looks like redis://user:password@host:6379/0, or rediss:// with TLS.',
      )
    }
    this.#options = options
    this.prefix = prefix
    this.keys = keys
    this.address = `${parsed.protocol}//${parsed.host}`
    this.#isReadable = !keys.encrypts && !isLoopback(parsed.hostname)
    if (!this.#isReadable || allowPlainKeys) return
    throw new OsmosisError(
      'invalid_config',
      `Keys of policies and callbacks would be readable in the Redis at ${this.address}. Give its fronts and workers a file of queue keys (--queue-key-file), or allow plain keys (--allow-plain-keys).`,
    )
  }

  /** A connection whose commands fail at once while Redis is unreachable. */
  failing(): Redis {
    return this.#open({
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      commandTimeout: answerMs,
      lazyConnect: true,
    })
  }

  /** A connection whose commands wait until Redis is back. */
  waiting(): Redis {
    return this.#open({ maxRetriesPerRequest: null })
  }

  /**
   * Receives the messages of a channel from now on, except those sent while Redis is unreachable.
   *
   * @returns ends it
   */
  async subscribe(channel: string, onMessage: (message: string) => void): Promise<() => void> {
    // ioredis would resubscribe on its own, with a rejection that no code handles.
    const redis = this.#open({ maxRetriesPerRequest: null, autoResubscribe: false })
    const subscribed = Promise.withResolvers<void>()
    redis.on('ready', () => {
      redis.subscribe(channel).then(
        () => subscribed.resolve(),
        () => {},
      )
    })
    redis.on('message', (_channel, message) => onMessage(message))
    await subscribed.promise
    return () => {
      const at = this.#opened.indexOf(redis)
      if (at >= 0) this.#opened.splice(at, 1)
      redis.disconnect()
    }
  }

  /**
   * Sees whether Redis answers, is one that keeps what it was given, and has a queue with these keys.
   *
   * @returns what looks wrong, one sentence each
   * @throws OsmosisError with code `queue_unavailable` or `invalid_config`
   */
  async check(redis: Redis): Promise<string[]> {
    try {
      if (redis.status === 'wait') await redis.connect()
      await this.#agreeOnKeys(redis)
    } catch (error) {
      if (isOsmosisError(error)) throw error
      // The error of ioredis says only that the connection is missing.
      const isHungUp = error instanceof Error && error.name === 'MaxRetriesPerRequestError'
      throw this.unavailable(this.#trouble ?? (isHungUp ? new Error(hungUp) : error))
    }
    const plain = this.#isReadable
      ? [
          `Keys of policies and callbacks are readable in the Redis at ${this.address}, for whoever reads that. Give fronts and workers a file of queue keys.`,
        ]
      : []
    let info: string
    try {
      info = await redis.info()
    } catch {
      const unseen = `Whether the Redis at ${this.address} keeps what it is given could not be looked at.`
      return [...plain, unseen]
    }
    return [...plain, ...this.#warnings(infoFields(info))]
  }

  /** Has it remembered which keys this queue has, for those who come later. */
  async holdKeys(redis: Redis): Promise<void> {
    await redis.set(this.#keysAt, this.keys.seal(this.prefix, this.#keysAt), 'PX', keysKnownMs)
  }

  /** A failure of Redis as an error of the queue. */
  unavailable(cause: unknown): OsmosisError {
    const why = cause instanceof Error ? cause.message : String(cause)
    const what = cause instanceof ReplyError ? 'refuses' : 'does not answer'
    return new OsmosisError(
      'queue_unavailable',
      `The Redis of the queue at ${this.address} ${what}: ${why}`,
      { cause },
    )
  }

  /** Closes all its connections at once. */
  close(): void {
    for (const redis of this.#opened.splice(0)) {
      // To disconnect one that BullMQ has closed would hold the process for two seconds.
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
        `The queue ${this.prefix} at ${this.address} is encrypted with a key that is not among those of this process, or only one of the two has keys. Fronts and workers of a queue need the same file of queue keys; for other keys end all of them, and wait ${keysKnownMs / 60_000} minutes or choose another prefix.`,
        { cause },
      )
    }
    await this.holdKeys(redis)
  }

  #warnings(info: ReadonlyMap<string, string>): string[] {
    const version = info.get('redis_version') ?? '0'
    const [major = 0, minor = 0] = version.split('.').map(Number)
    const [oldestMajor, oldestMinor] = oldestVersion
    if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
      throw new OsmosisError(
        'invalid_config',
        `The Redis at ${this.address} is ${version}. A queue needs ${oldestVersion.join('.')} or newer, or Valkey.`,
      )
    }
    const warnings = []
    if (info.get('aof_enabled') === '0') {
      warnings.push(
        `The Redis at ${this.address} has no append-only file: what was accepted is lost when it restarts. Set "appendonly yes".`,
      )
    }
    const policy = info.get('maxmemory_policy')
    if (policy !== undefined && policy !== 'noeviction') {
      warnings.push(
        `The Redis at ${this.address} drops keys when its memory is full (${policy}), and rollouts with them. Set "maxmemory-policy noeviction".`,
      )
    }
    return warnings
  }

  #open(options: {
    readonly enableOfflineQueue?: boolean
    readonly maxRetriesPerRequest: number | null
    readonly commandTimeout?: number
    readonly lazyConnect?: boolean
    readonly autoResubscribe?: boolean
  }): Redis {
    const { url, tls } = this.#options
    const redis = new Redis(url, {
      ...options,
      ...(tls === undefined ? {} : { tls }),
      connectTimeout: answerMs,
      retryStrategy: (times) => Math.min(50 * 2 ** times, 1_000),
    })
    // Commands fail with what happens; without a listener ioredis prints it.
    redis.on('error', (error) => {
      this.#trouble = error
    })
    redis.on('connect', () => sendTogether(redis.stream))
    this.#opened.push(redis)
    // BullMQ duplicates the connection for blocking commands, and does not close it while Redis is unreachable.
    const duplicate = redis.duplicate.bind(redis)
    redis.duplicate = (override) => {
      const second = duplicate(override)
      this.#opened.push(second)
      return second
    }
    return redis
  }
}

/**
 * Sends what is written in one turn of the event loop at its end, together: a write of its own for each
 * command takes more time than all else that is done for it.
 */
function sendTogether(stream: Pick<Redis['stream'], 'write' | 'cork' | 'uncork'>): void {
  const write = stream.write.bind(stream)
  let isWaiting = false
  const writeLater = (...args: Parameters<typeof write>): boolean => {
    if (!isWaiting) {
      isWaiting = true
      stream.cork()
      setImmediate(() => {
        isWaiting = false
        stream.uncork()
      })
    }
    return write(...args)
  }
  stream.write = writeLater as typeof stream.write
}

function isLoopback(hostname: string): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)
}

function infoFields(info: string): Map<string, string> {
  const pairs = [...info.matchAll(/^(\w+):(.*?)\r?$/gm)]
  return new Map(pairs.map(([, name = '', value = '']) => [name, value]))
}
