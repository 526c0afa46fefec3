import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { onTestFinished } from 'vitest'

import { freePort } from '../free-port.ts'
import { asked } from './redis-pair.ts'
import {
  redisProgram,
  startRedis,
  type RedisServer,
  type RedisServerOptions,
} from './redis-server.ts'

/** How {@link RedisSentinels} are started. */
export interface RedisSentinelsOptions extends RedisServerOptions {
  /** Number of Sentinels, one of which is enough to replace a primary. Default: 1. */
  readonly sentinels?: number
  /** Password of the Redis servers. Default: none. */
  readonly password?: string
  /** Password of the Sentinels. Default: none. */
  readonly sentinelPassword?: string
}

/** Two Redis servers, of which one follows the other, and Sentinels that make the replica the primary when that is silent. */
export class RedisSentinels implements AsyncDisposable {
  /** The name under which the Sentinels know the primary. */
  readonly name = 'rollouts'
  readonly servers: readonly RedisServer[]
  /** The primary, as of the last change of roles. */
  primary: RedisServer
  readonly #sentinels: readonly Sentinel[]
  readonly #options: RedisSentinelsOptions

  private constructor(
    servers: readonly [RedisServer, RedisServer],
    sentinels: readonly Sentinel[],
    options: RedisSentinelsOptions,
  ) {
    this.servers = servers
    this.primary = servers[0]
    this.#sentinels = sentinels
    this.#options = options
  }

  /** Resolves when the Sentinels know the replica. */
  static async start(options: RedisSentinelsOptions = {}): Promise<RedisSentinels> {
    const { keep = onTestFinished, password, sentinels = 1 } = options
    const login = password === undefined ? {} : { requirepass: password, masterauth: password }
    const config = { ...options.config, ...login, 'repl-diskless-sync-delay': '0' }
    const owned = { ...options, config, keep: () => {} }
    const [primary, replica] = [await startRedis(owned), await startRedis(owned)]
    const count = Array.from({ length: sentinels })
    const started = count.map(async () => Sentinel.start(primary.port, options))
    const all = new RedisSentinels([primary, replica], await Promise.all(started), options)
    keep(async () => all.stop())
    await all.#ask(replica, 'REPLICAOF', '127.0.0.1', String(primary.port))
    await all.ready()
    return all
  }

  get url(): string {
    const login = loginOf(this.#options.password)
    const places = this.#sentinels.map(({ port }) => `127.0.0.1:${port}`)
    return `redis+sentinel://${login}${places.join(',')}/${this.name}`
  }

  /** Has the Sentinels replace a primary that works, and resolves when it follows the new one. */
  async switchRoles(): Promise<void> {
    // They refuse while another one is in progress, and give one up that takes too long.
    await this.#replaced(this.primary, async () => {
      await this.#askSentinel('FAILOVER', this.name).catch(() => undefined)
    })
    await this.ready()
  }

  /** Kills the primary, and starts it again when another one has taken its place. */
  async failOver(): Promise<void> {
    const killed = this.primary
    await killed.kill()
    await this.#replaced(killed)
    await killed.restart()
    await this.ready()
  }

  /** Resolves when the primary has a replica, and the Sentinels know both and one another. */
  async ready(): Promise<void> {
    const assertTime = waitLimit('a primary with a replica that the Sentinels know')
    for (;;) {
      // On a busy machine they replace one that nobody has killed.
      await this.#lookForPrimary()
      const [told, known, own] = await Promise.all([
        this.#ask(this.primary, 'INFO', 'replication').catch(() => ''),
        this.#askSentinel('REPLICAS', this.name),
        this.#askSentinel('MASTER', this.name),
      ])
      // Each of them needs the votes of the others that it knows.
      const others = Number(/,num-other-sentinels,(\d+)/.exec(own)?.[1])
      const isFollowed = /state=online,offset=\d+,lag=[01]\b/.test(told)
      if (isFollowed && /,flags,slave,/.test(known) && others >= this.#sentinels.length - 1) return
      assertTime([told, known, own])
      await sleep(50)
    }
  }

  /** Resolves when the Sentinels name another primary than this. @param ask - asks them to replace it */
  async #replaced(before: RedisServer, ask = async (): Promise<void> => {}): Promise<void> {
    const assertTime = waitLimit('another primary')
    while (this.primary === before) {
      assertTime([await this.#askSentinel('MASTER', this.name)])
      await ask()
      await sleep(200)
      await this.#lookForPrimary()
    }
  }

  async #lookForPrimary(): Promise<void> {
    const answer = await this.#askSentinel('GET-MASTER-ADDR-BY-NAME', this.name)
    const port = Number(answer.split(',').at(-1))
    this.primary = this.servers.find((server) => server.port === port) ?? this.primary
  }

  async stop(): Promise<void> {
    await Promise.all(this.#sentinels.map(async (one) => one.stop()))
    await Promise.all(this.servers.map(async (one) => one.stop()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #ask({ url }: RedisServer, ...words: string[]): Promise<string> {
    return asked({ url: url.replace('//', `//${loginOf(this.#options.password)}`) }, ...words)
  }

  async #askSentinel(...words: string[]): Promise<string> {
    const login = loginOf(this.#options.sentinelPassword)
    const [sentinel] = this.#sentinels
    return asked({ url: `redis://${login}127.0.0.1:${sentinel?.port}` }, 'SENTINEL', ...words)
  }
}

/** A check that throws after two minutes, so that a test says which of its waits had no end. */
function waitLimit(what: string): (seen: readonly string[]) => void {
  const end = performance.now() + 120_000
  return (seen) => {
    if (performance.now() < end) return
    throw new Error(`Expected ${what} within two minutes, and the servers say:\n${seen.join('\n')}`)
  }
}

function loginOf(password: string | undefined): string {
  return password === undefined ? '' : `:${encodeURIComponent(password)}@`
}

/** A Sentinel that counts alone. */
class Sentinel {
  readonly port: number
  readonly stop: () => Promise<void>

  private constructor(port: number, stop: () => Promise<void>) {
    this.port = port
    this.stop = stop
  }

  static async start(primary: number, options: RedisSentinelsOptions): Promise<Sentinel> {
    const { password, sentinelPassword } = options
    const folder = await mkdtemp(path.join(tmpdir(), 'osmosis-sentinel-'))
    const file = path.join(folder, 'sentinel.conf')
    const port = await freePort()
    // Milliseconds. A Sentinel that a busy machine has paused for 2 s does nothing for 30 s (TILT). Afterwards it promotes a replica only if
    // the replica lost its primary less than ten times this before: with 2 s it never did.
    const downAfter = 5000
    const lines = [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${folder}`,
      `sentinel monitor rollouts 127.0.0.1 ${primary} 1`,
      `sentinel down-after-milliseconds rollouts ${downAfter}`,
      'sentinel failover-timeout rollouts 5000',
      ...(password === undefined ? [] : [`sentinel auth-pass rollouts ${password}`]),
      ...(sentinelPassword === undefined
        ? []
        : [`requirepass ${sentinelPassword}`, `sentinel sentinel-pass ${sentinelPassword}`]),
    ]
    await writeFile(file, `${lines.join('\n')}\n`)
    const child = spawn(redisProgram(), [file, '--sentinel'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let log = ''
    const ready = Promise.withResolvers<void>()
    child.stdout.on('data', (data: Buffer) => {
      log += data.toString()
      if (log.includes('+monitor')) ready.resolve()
    })
    child.once('exit', () => ready.reject(new Error(`the Sentinel ended: ${log}`)))
    await ready.promise
    return new Sentinel(port, async () => {
      const ended = once(child, 'exit')
      if (child.kill('SIGKILL')) await ended
      await rm(folder, { recursive: true, force: true })
    })
  }
}
