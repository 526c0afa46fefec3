import { setTimeout as sleep } from 'node:timers/promises'

import { Redis } from 'ioredis'
import { onTestFinished } from 'vitest'

import { startRedis, type RedisServer, type RedisServerOptions } from './redis-server.ts'
import { TcpProxy } from './tcp-proxy.ts'

/** What a replica does not have when it takes the place of its primary, unless that stores less in so long a time. Bytes. */
const lostBytes = 20_000
/**
 * After 15 s without a replica a queue tells what it has stored all the same. On a busy machine it stores little while it waits.
 * Milliseconds.
 */
const longestFrozenMs = 4_000

/**
 * A primary and its replica behind one address, which leads to the primary, as managed services have them. Connections to a
 * primary that has become a replica stay open.
 */
export class RedisPair implements AsyncDisposable {
  #primary: RedisServer
  #replica: RedisServer
  readonly #front: TcpProxy
  /** The connection of the replica to the primary. */
  readonly #link: TcpProxy

  private constructor(
    servers: readonly [primary: RedisServer, replica: RedisServer],
    proxies: readonly [front: TcpProxy, link: TcpProxy],
  ) {
    ;[this.#primary, this.#replica] = servers
    ;[this.#front, this.#link] = proxies
  }

  /** Resolves when the replica has what the primary has. */
  static async start(options: RedisServerOptions = {}): Promise<RedisPair> {
    const { keep = onTestFinished } = options
    // A new replica would wait 5 s for others that come as well.
    const config = { ...options.config, 'repl-diskless-sync-delay': '0' }
    const owned = { ...options, config, keep: () => {} }
    const [primary, replica] = await Promise.all([startRedis(owned), startRedis(owned)])
    const [front, link] = [new TcpProxy(primary.port), new TcpProxy(primary.port)]
    const pair = new RedisPair([primary, replica], [await front.start(), await link.start()])
    keep(async () => pair.stop())
    await pair.follow()
    return pair
  }

  /** The one address. */
  get url(): string {
    return `redis://127.0.0.1:${this.#front.port}`
  }

  get primary(): RedisServer {
    return this.#primary
  }

  get replica(): RedisServer {
    return this.#replica
  }

  /** Makes the primary a replica, and then the replica the primary. What the primary stored last is lost. */
  async switchRoles(): Promise<void> {
    await this.fallBehind()
    await this.demote()
    await this.promote()
    await this.follow()
  }

  /** Kills the primary, and makes the replica the primary. What the killed one stored last is lost; it starts again as replica. */
  async failOver(): Promise<void> {
    await this.fallBehind()
    await this.#primary.kill()
    await this.promote()
    await this.#replica.restart({ replicaof: this.#source })
    await this.follow()
  }

  /** The replica gets nothing more. */
  freeze(): void {
    this.#link.freeze()
  }

  /** Resolves when the primary has stored more that the replica does not get, or had the time for it. */
  async fallBehind(): Promise<void> {
    this.freeze()
    const since = performance.now()
    const begun = await this.#offset()
    while ((await this.#offset()) < begun + lostBytes) {
      if (performance.now() - since > longestFrozenMs) return
      await sleep(20)
    }
  }

  /** Makes the primary a replica, so that there is no primary. */
  async demote(): Promise<void> {
    await asked(this.#primary, 'REPLICAOF', ...this.#source.split(' '))
  }

  /** Makes the replica the primary. */
  async promote(): Promise<void> {
    await asked(this.#replica, 'REPLICAOF', 'NO', 'ONE')
    ;[this.#primary, this.#replica] = [this.#replica, this.#primary]
    this.#front.target = this.#primary.port
    this.#link.target = this.#primary.port
    this.#link.cut()
  }

  /** Resolves when the replica has all that the primary has, and the primary knows that. */
  async follow(): Promise<void> {
    await asked(this.#replica, 'REPLICAOF', ...this.#source.split(' '))
    const isFollowed = /state=online,offset=\d+,lag=[01]\b/
    while (!isFollowed.test(await asked(this.#primary, 'INFO', 'replication'))) await sleep(50)
  }

  /** Kills both and removes their folders. */
  async stop(): Promise<void> {
    await Promise.all([this.#primary.stop(), this.#replica.stop()])
    await Promise.all([this.#front, this.#link].map(async (one) => one[Symbol.asyncDispose]()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  get #source(): string {
    return `127.0.0.1 ${this.#link.port}`
  }

  async #offset(): Promise<number> {
    const told = await asked(this.#primary, 'INFO', 'replication')
    return Number(/master_repl_offset:(\d+)/.exec(told)?.[1])
  }
}

/** The answer of a server to a command. */
export async function asked(
  { url }: Pick<RedisServer, 'url'>,
  ...words: string[]
): Promise<string> {
  const [name = '', ...args] = words
  const redis = new Redis(url)
  try {
    return String(await redis.call(name, ...args))
  } finally {
    redis.disconnect()
  }
}
