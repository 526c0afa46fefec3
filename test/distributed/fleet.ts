import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { freePort } from '@osmosis/testing/kit/free-port'
import { LossyProxy } from '@osmosis/testing/kit/lossy-proxy'
import { startRedis, type RedisServer } from '@osmosis/testing/kit/redis-server'

import type { Chance } from '../faults/chance.ts'
import { bin, Program, ServedProcess } from '../faults/served-process.ts'

const entrypoint = path.resolve(import.meta.dirname, '../faults/served/workflow.ts')
const skewedClock = path.join(import.meta.dirname, 'skewed-clock.ts')

/** What a fleet consists of. */
export interface FleetOptions {
  readonly chance: Chance
  /** Rollouts that a worker runs at a time. */
  readonly concurrency: number
  /** Whether Redis keeps what it has acknowledged when it is killed. */
  readonly aof: boolean
  /** For how long a worker keeps a rollout without a sign of life. Seconds. */
  readonly lockSeconds: number
  /** The script that is a worker, for one that is broken on purpose. Default: `osmosis worker`. */
  readonly workerScript: string | undefined
  /** How wrong clocks are, of fronts and workers alternately, one way and the other. Seconds. */
  readonly skewSeconds: number
  /** Called when a worker has ended by itself; what it returns says whether that was expected. */
  readonly onWorkerEnd: (what: string) => boolean
  readonly onTrouble: (what: string) => void
}

/** Of a fleet that is to lose workers. */
export const shortLockSeconds = 2

const mostStarts = 20

/** A Redis, two fronts behind a balancer and three workers, each a process of its own. */
export class Fleet {
  readonly redis: RedisServer
  readonly fronts: readonly ServedProcess[]
  readonly workers: readonly Program[]
  readonly #balancer: LossyProxy
  readonly #starting = new Map<Program, Promise<void>>()
  #isClosing = false

  private constructor(
    redis: RedisServer,
    fronts: readonly ServedProcess[],
    workers: readonly Program[],
    balancer: LossyProxy,
  ) {
    this.redis = redis
    this.fronts = fronts
    this.workers = workers
    this.#balancer = balancer
  }

  static async start(options: FleetOptions): Promise<Fleet> {
    const {
      chance,
      concurrency,
      aof,
      lockSeconds,
      workerScript,
      skewSeconds,
      onWorkerEnd,
      onTrouble,
    } = options
    const redis = await startRedis({ aof, keep: () => {} })
    const skew = (index: number): Record<string, string> => ({
      NODE_OPTIONS: skewSeconds === 0 ? '' : `--import=${skewedClock}`,
      CLOCK_SHIFT_MS: String((index % 2 === 0 ? 1 : -1) * skewSeconds * 1000),
    })
    const queue = ['--redis', redis.url]
    if (workerScript !== undefined) queue.push('--code-version=broken')
    const fronts = await Promise.all(
      ['first', 'second'].map(async (name, index) => {
        const args = [entrypoint, '--no-trajectories', ...queue]
        return new ServedProcess(await freePort(), {
          name: `the ${name} front`,
          args,
          env: skew(index),
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
        env: skew(index + 1),
        ready: 'Taking rollouts',
        onTrouble: (what) => {
          if (!onWorkerEnd(what)) return onTrouble(what)
          fleet.startAgain(worker).catch((error: unknown) => onTrouble(String(error)))
        },
      })
      return worker
    })
    const balancer = await new LossyProxy('').start()
    const fleet: Fleet = new Fleet(redis, fronts, workers, balancer)
    let requests = 0
    balancer.fault = () => {
      requests += 1
      const up = fronts.filter(({ isUp }) => isUp)
      const luck = Math.floor(chance('balancer', requests) * up.length)
      const front = up[luck] ?? fronts[0]
      if (front !== undefined) balancer.target = front.url
      return undefined
    }
    try {
      await Promise.all([...fronts, ...workers].map(async (program) => program.start()))
    } catch (error) {
      await fleet.close('SIGKILL')
      throw error
    }
    return fleet
  }

  /** Passes each request on to one of the fronts that are up. */
  get url(): string {
    return this.#balancer.url
  }

  /** Starts a program that has ended, as whatever runs it would: once, until it stays. */
  async startAgain(program: Program): Promise<void> {
    // A worker that ends by itself may be about to be killed as well.
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
        // There may be no Redis now.
        if (tries === mostStarts) throw error
        await sleep(200)
      }
    }
  }

  /** Ends all, Redis last. */
  async close(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.#isClosing = true
    await Promise.allSettled(this.#starting.values())
    await Promise.all([...this.workers, ...this.fronts].map(async (one) => one.end(signal)))
    await this.#balancer[Symbol.asyncDispose]()
    await this.redis.stop()
  }
}
