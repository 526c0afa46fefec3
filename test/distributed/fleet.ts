import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import type { Chance } from '../faults/chance.ts'
import { bin, Program, ServedProcess } from '../faults/served-process.ts'
import { freePort } from '../kit/free-port.ts'
import { LossyProxy } from '../kit/lossy-proxy.ts'
import { RedisPair } from '../kit/redis/redis-pair.ts'
import { RedisSentinels } from '../kit/redis/redis-sentinels.ts'
import { startRedis, type RedisServer } from '../kit/redis/redis-server.ts'

const entrypoint = path.resolve(import.meta.dirname, '../faults/served/workflow.ts')
const skewedClock = path.join(import.meta.dirname, 'skewed-clock.ts')

/** Options of a {@link Fleet}. */
export interface FleetOptions {
  readonly chance: Chance
  /** Maximum concurrent rollouts of a worker. */
  readonly concurrency: number
  /** Whether Redis stores acknowledged writes when it is killed. */
  readonly aof: boolean
  /** What takes the place of its Redis: a replica behind the same address, or one that Sentinels choose. Default: nothing. */
  readonly standby: Standby | undefined
  /** How long a worker may be silent. Seconds. */
  readonly lockSeconds: number
  /** The script of a worker that is broken on purpose. Default: `osmosis worker`. */
  readonly workerScript: string | undefined
  /** Clock skew of servers and workers, alternately forward and backward. Seconds. */
  readonly skewSeconds: number
  /** Called when a worker has exited without a signal; returns whether that was expected. */
  readonly onWorkerEnd: (what: string) => boolean
  readonly onTrouble: (what: string) => void
}

/** The lock duration of a fleet that loses workers. */
export const shortLockSeconds = 2

const mostStarts = 20

export type Standby = 'replica' | 'sentinels'

/** The Redis of a fleet. */
interface FleetRedis {
  /** Where servers and workers reach it. */
  readonly url: string
  /** The server that stores the queue now. */
  readonly primary: RedisServer
  /** Makes the replica the primary, once as planned and once because the primary was killed. */
  switchRoles?(): Promise<void>
  failOver?(): Promise<void>
  stop(): Promise<void>
}

/** Redis, two servers behind a load balancer, and three workers, all in separate processes. */
export class Fleet {
  readonly redis: FleetRedis
  readonly servers: readonly ServedProcess[]
  readonly workers: readonly Program[]
  readonly #balancer: LossyProxy
  readonly #starting = new Map<Program, Promise<void>>()
  #isClosing = false

  private constructor(
    redis: FleetRedis,
    servers: readonly ServedProcess[],
    workers: readonly Program[],
    balancer: LossyProxy,
  ) {
    this.redis = redis
    this.servers = servers
    this.workers = workers
    this.#balancer = balancer
  }

  static async start(options: FleetOptions): Promise<Fleet> {
    const {
      chance,
      concurrency,
      aof,
      standby,
      lockSeconds,
      workerScript,
      skewSeconds,
      onWorkerEnd,
      onTrouble,
    } = options
    const redis = await startFleetRedis({ aof, standby })
    const skew = (index: number): Record<string, string> => ({
      NODE_OPTIONS: skewSeconds === 0 ? '' : `--import=${skewedClock}`,
      CLOCK_SHIFT_MS: String((index % 2 === 0 ? 1 : -1) * skewSeconds * 1000),
    })
    const queue = ['--redis', redis.url]
    const version = workerScript === undefined ? {} : { OSMOSIS_CODE_VERSION: 'broken' }
    const servers = await Promise.all(
      ['first', 'second'].map(async (name, index) => {
        const args = [entrypoint, '--no-trajectories', ...queue]
        return new ServedProcess(await freePort(), {
          name: `the fleet (${name})`,
          args,
          env: { ...version, ...skew(index) },
          onTrouble,
        })
      }),
    )
    const workers = ['first', 'second', 'third'].map((name, index) => {
      const command = workerScript === undefined ? [bin, 'worker'] : [workerScript]
      const worker: Program = new Program({
        name: `${name} worker`,
        args: [
          ...command,
          entrypoint,
          ...queue,
          `--concurrency=${concurrency}`,
          `--lock-duration=${lockSeconds}`,
        ],
        env: { ...version, ...skew(index + 1) },
        ready: 'Taking rollouts',
        onTrouble: (what) => {
          if (!onWorkerEnd(what)) return onTrouble(what)
          fleet.startAgain(worker).catch((error: unknown) => onTrouble(String(error)))
        },
      })
      return worker
    })
    const balancer = await new LossyProxy('').start()
    const fleet: Fleet = new Fleet(redis, servers, workers, balancer)
    let requests = 0
    balancer.fault = () => {
      requests += 1
      const up = servers.filter(({ isUp }) => isUp)
      const luck = Math.floor(chance('balancer', requests) * up.length)
      const server = up[luck] ?? servers[0]
      if (server !== undefined) balancer.target = server.url
      return undefined
    }
    try {
      await Promise.all([...servers, ...workers].map(async (program) => program.start()))
    } catch (error) {
      await fleet.close('SIGKILL')
      throw error
    }
    return fleet
  }

  /** The load balancer, which passes each request to a server that is up. */
  get url(): string {
    return this.#balancer.url
  }

  /** Starts a program again until it is ready, as a process manager does. */
  async startAgain(program: Program): Promise<void> {
    // A worker may exit and be killed at once; it is started only once.
    const starting = this.#starting.get(program) ?? this.#startUntilUp(program)
    this.#starting.set(program, starting)
    try {
      await starting
    } finally {
      this.#starting.delete(program)
    }
  }

  async #startUntilUp(program: Program): Promise<void> {
    for (let tries = 0; !this.#isClosing; tries += 1) {
      try {
        return await program.start()
      } catch (error) {
        // Redis may be down.
        if (tries === mostStarts) throw error
        await sleep(200)
      }
    }
  }

  /** Ends all processes, Redis last. */
  async close(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.#isClosing = true
    await Promise.allSettled(this.#starting.values())
    await Promise.all([...this.workers, ...this.servers].map(async (one) => one.end(signal)))
    await this.#balancer[Symbol.asyncDispose]()
    await this.redis.stop()
  }
}

async function startFleetRedis({
  aof,
  standby,
}: Pick<FleetOptions, 'aof' | 'standby'>): Promise<FleetRedis> {
  const options = { aof, keep: () => {} }
  if (standby === 'replica') return RedisPair.start(options)
  if (standby === 'sentinels') return RedisSentinels.start({ ...options, sentinels: 3 })
  const redis = await startRedis(options)
  return { url: redis.url, primary: redis, stop: async () => redis.stop() }
}
