// The parts of bench distributed: server and worker processes, and Redis.
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { Redis } from 'ioredis'

import { startRedis } from '../test/kit/index.ts'
import type { ProcessFigures, Queue, Role } from './distributed-process.ts'

/** Milliseconds of processor time, by kind of process. */
export type CpuTimes = ReadonlyMap<string, number>

/** Processes that run rollouts together; requests go to the first one. */
export class Deployment {
  readonly url: string
  readonly #processes: readonly MeasuredProcess[]
  readonly #redisPid: number | undefined

  private constructor(processes: readonly MeasuredProcess[], redisPid: number | undefined) {
    this.#processes = processes
    this.#redisPid = redisPid
    this.url = `http://127.0.0.1:${processes[0]?.port}`
  }

  static async start(roles: readonly Role[], redisPid?: number): Promise<Deployment> {
    return new Deployment(await Promise.all(roles.map(startProcess)), redisPid)
  }

  /** A server and its workers. `isBare`: with BullMQ alone. */
  static async overQueue(
    { url, pid }: Pick<MeasuredRedis, 'url' | 'pid'>,
    {
      workers,
      concurrency,
      isBare = false,
      ...queue
    }: Omit<Queue, 'url'> & { workers: number; concurrency: number; isBare?: boolean },
  ): Promise<Deployment> {
    const redis = { ...queue, url }
    const worker = { kind: isBare ? 'bare-worker' : 'worker', redis, concurrency } as const
    const roles = Array.from({ length: workers }, () => worker)
    return Deployment.start([{ kind: isBare ? 'bare-server' : 'server', redis }, ...roles], pid)
  }

  async cpu(): Promise<CpuTimes> {
    const times = new Map<string, number>()
    const add = (kind: string, ms: number): void =>
      void times.set(kind, (times.get(kind) ?? 0) + ms)
    for (const { kind, child } of this.#processes) {
      const [pid, ...children] = await familyOf(child.pid ?? 0)
      add(kind, await cpuOf(pid))
      for (const worker of children) add('worker', await cpuOf(worker))
    }
    if (this.#redisPid !== undefined) add('redis', await cpuOf(this.#redisPid))
    return times
  }

  /** The event loop of each process since the last call, and its memory. */
  async figures(): Promise<(ProcessFigures & { readonly kind: string })[]> {
    return Promise.all(
      this.#processes.map(async ({ kind, child }) => {
        child.send('figures')
        const [figures] = (await once(child, 'message')) as [ProcessFigures]
        return { kind, ...figures }
      }),
    )
  }

  /** Kills its last worker. */
  killWorker(): void {
    this.#processes.at(-1)?.child.kill('SIGKILL')
  }

  async end(): Promise<void> {
    await Promise.all(
      this.#processes.map(async ({ child }) => {
        if (!child.connected) return
        const exit = once(child, 'exit')
        child.disconnect()
        await exit
      }),
    )
  }
}

interface MeasuredProcess {
  readonly kind: Role['kind']
  readonly child: ChildProcess
  /** 0 of a worker, which listens on none. */
  readonly port: number
}

async function startProcess(role: Role): Promise<MeasuredProcess> {
  const file = path.join(import.meta.dirname, 'distributed-process.ts')
  // As in the commands.
  const execArgv = ['--no-allocation-site-pretenuring']
  const child = fork(file, [JSON.stringify(role)], { execArgv })
  const [port] = (await once(child, 'message')) as [number]
  return { kind: role.kind, child, port }
}

/** A process and its children. */
async function familyOf(pid: number): Promise<[number, ...number[]]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return [pid, ...children.split(' ').filter(Boolean).map(Number)]
}

/** As the system counts it, in hundredths of a second; 0 when the process has exited. Milliseconds. */
async function cpuOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * 10
}

/** A redis-server with an append-only file, as in production. */
export class MeasuredRedis {
  readonly url: string
  readonly pid: number
  readonly #redis: Redis
  readonly #ends: (() => Promise<void>)[]

  private constructor(url: string, pid: number, redis: Redis, stop: () => Promise<void>) {
    this.url = url
    this.pid = pid
    this.#redis = redis
    this.#ends = [stop]
  }

  static async start(): Promise<MeasuredRedis> {
    const config = { appendfsync: 'everysec' }
    const server = await startRedis({ aof: true, config, keep: () => {} })
    const redis = new Redis(server.url)
    const info = await redis.info('server')
    const pid = Number(/process_id:(\d+)/.exec(info)?.[1])
    return new MeasuredRedis(server.url, pid, redis, async () => server.stop())
  }

  /** Starts a replica, and resolves with the address for a user who cannot see it, so that nobody waits for it. */
  async replicate(): Promise<string> {
    const { port } = new URL(this.url)
    const config = { replicaof: `127.0.0.1 ${port}`, 'repl-diskless-sync-delay': '0' }
    const replica = await startRedis({ config, keep: () => {} })
    this.#ends.push(async () => replica.stop())
    while (!(await this.#redis.info('replication')).includes('state=online')) await sleep(100)
    await this.#redis.acl('SETUSER', 'blind', 'on', 'nopass', '~*', '&*', '+@all', '-info')
    return `redis://blind:any@127.0.0.1:${port}`
  }

  /** Bytes of stored data, without the buffers of connections and of the file. */
  async bytes(): Promise<number> {
    const info = await this.#redis.info('memory')
    const field = (name: string): number =>
      Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0)
    const buffers = ['mem_clients_normal', 'mem_aof_buffer', 'mem_clients_slaves'].map(field)
    return buffers.reduce((sum, bytes) => sum - bytes, field('used_memory'))
  }

  /**
   * Expires the records that have a time limit.
   *
   * @returns how many remain
   */
  async expire(prefix: string): Promise<number> {
    const records = `${prefix}:rollout:*`
    for (const key of await this.#redis.keys(records)) {
      if ((await this.#redis.pttl(key)) > 0) await this.#redis.pexpire(key, 1)
    }
    await sleep(100)
    const left = await this.#redis.keys(records)
    return left.length
  }

  /**
   * The commands that Redis receives while `act` runs.
   *
   * @returns the number of each command; names of commands in scripts begin with `lua `
   */
  async commandsOf(prefix: string, act: () => Promise<void>): Promise<Map<string, number>> {
    const monitor = await this.#redis.monitor()
    const counts = new Map<string, number>()
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      const [name = '', , , key = ''] = args
      const command = name.toLowerCase()
      const script = key.startsWith(`${prefix}:rollout:`) ? 'of a record' : 'of BullMQ'
      const outside = command.startsWith('eval') ? `script ${script}` : command
      const label = source === 'lua' ? `lua ${command}` : outside
      counts.set(label, (counts.get(label) ?? 0) + 1)
    })
    await act()
    // Earlier commands arrive before this one.
    await this.#redis.ping()
    await sleep(100)
    monitor.disconnect()
    return counts
  }

  async end(): Promise<void> {
    this.#redis.disconnect()
    for (const end of this.#ends) await end()
  }
}
