import { availableParallelism } from 'node:os'
import { getHeapStatistics } from 'node:v8'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { untilAborted, wait } from '@osmosis/core/http'

import type { ProcessUsage, ReadyMessage } from '../worker-messages.ts'
import {
  workerEndReasons,
  type WorkerEndReason,
  type WorkerProcessOptions,
} from './child-process.ts'
import type { RemoteExecution, ExecutionOrder } from './remote-execution.ts'
import { spendableBytes, WorkerProcess } from './worker-process.ts'

/** How the workers of a pool are started. */
export interface WorkerPoolOptions {
  /** The file that calls `runWorker`. */
  readonly module: string
  /** Its arguments. Default: none. */
  readonly args?: readonly string[] | undefined
  /** Arguments of Node.js for workers. Default: those of this process. */
  readonly execArgv?: readonly string[] | undefined
  /** Their working directory. Default: that of this process. */
  readonly cwd?: string | undefined
  /**
   * Their environment variables. Default: those of this process. The key of the server,
   * `OSMOSIS_ROLLOUT_SERVER_API_KEY`, is always removed.
   */
  readonly env?: NodeJS.ProcessEnv | undefined
  /** Number of processes. Default: one for each core. */
  readonly workers?: number | undefined
  /** A worker whose event loop is blocked for longer is killed. Seconds; default 30. */
  readonly stallTimeoutSeconds?: number | undefined
  /**
   * A worker that has rollouts to run, but has ended none of them for longer, is killed. Seconds; default:
   * no limit.
   */
  readonly progressTimeoutSeconds?: number | undefined
  /**
   * Heap limit of a worker. A worker is killed when all its memory, with buffers, exceeds twice the heap
   * limit plus 256 MiB, or three quarters of the memory of the machine or container. MiB; default: the
   * limit of Node.js, but at most these three quarters for all workers together.
   */
  readonly heapMegabytes?: number | undefined
  /** Called when a worker has ended without being closed, or when its successor cannot start. */
  readonly onWorkerEnd?: ((end: WorkerEnd) => void) | undefined
}

/** The end of a worker. */
export interface WorkerEnd {
  readonly pid: number | undefined
  /** What happened, as one sentence without a full stop. */
  readonly what: string
  /** Rollouts that were in it. */
  readonly rollouts: number
  /** When its successor is started. Milliseconds from now. */
  readonly restartMs: number
}

const firstBackoffMs = 250
const longestBackoffMs = 30_000
/** A worker that has run for this long counts as healthy, even without rollouts. */
const healthyMs = 10_000
/** Number of consecutive failed starts after which rollouts no longer wait for a worker. */
const enoughFailures = 3

/** Number of tries to start a first worker that is killed from outside while it loads. */
const mostFirstStarts = 3

/** A caller that waits for a worker. */
interface Waiter {
  readonly suspect: boolean
  readonly take: (worker: WorkerProcess) => void
  readonly giveUp: (error: Error) => void
}

/** An execution and its worker. */
export interface PlacedExecution {
  readonly run: RemoteExecution
  readonly worker: WorkerProcess
}

/** Keeps a fixed number of workers running, and assigns rollouts to them. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions
  readonly #processOptions: WorkerProcessOptions
  readonly #workers = new Set<WorkerProcess>()
  readonly #suspects = new WeakSet<RemoteExecution>()
  readonly #waiting = new Set<Waiter>()
  /** The ones with a suspect. */
  readonly #waitingSuspects = new Set<Waiter>()
  readonly #closing = new AbortController()
  #failedStarts = 0
  /** Has all reasons from the start, because Prometheus cannot see an increase to a first value. */
  readonly #restarts = Object.fromEntries(workerEndReasons.map((reason) => [reason, 0])) as Record<
    WorkerEndReason,
    number
  >
  /** CPU time of workers that have ended. */
  #pastCpuSeconds = 0

  constructor(options: WorkerPoolOptions) {
    this.#options = options
    const { workers = availableParallelism(), stallTimeoutSeconds = 30 } = options
    this.#processOptions = {
      name: 'the worker process',
      output: 'inherit',
      hasOwnGroup: false,
      module: options.module,
      args: options.args ?? [],
      execArgv: options.execArgv ?? process.execArgv,
      cwd: options.cwd,
      env: options.env,
      stallTimeoutSeconds,
      progressTimeoutSeconds: options.progressTimeoutSeconds,
      heapMegabytes: options.heapMegabytes ?? fairShareMegabytes(workers),
    }
  }

  /** Number of workers replaced so far, by reason. */
  get restarts(): Readonly<Record<WorkerEndReason, number>> {
    return { ...this.#restarts }
  }

  /** Resources of all workers; CPU time includes that of ended workers. */
  get usage(): ProcessUsage {
    let residentBytes = 0
    let cpuSeconds = this.#pastCpuSeconds
    for (const { usage } of this.#workers) {
      residentBytes += usage.residentBytes
      cpuSeconds += usage.cpuSeconds
    }
    return { residentBytes, cpuSeconds }
  }

  /** The process ids of the running workers. */
  get pids(): number[] {
    return [...this.#workers].flatMap(({ pid }) => pid ?? [])
  }

  /**
   * Starts all workers and resolves when they accept rollouts.
   *
   * @throws the error of the first worker that cannot load; OsmosisError with code `worker_lost` when the system started none,
   * or one was killed from outside, each time
   */
  async start(): Promise<ReadyMessage> {
    const { workers = availableParallelism() } = this.#options
    try {
      const starting = Array.from({ length: workers }, async () => this.#startFirst())
      const started = await Promise.all(starting)
      for (const worker of started) this.#keepUp(worker).catch(() => {})
      return await (started[0] as WorkerProcess).ready
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /**
   * Starts an execution in the least busy worker, as soon as one is free.
   *
   * @param suspect - whether the rollout was in a worker that ended. It then runs in a worker without
   * repeatable rollouts, and no other starts there until it has called the policy, so that it cannot lose
   * any repeatable rollout if it ends a second worker.
   * @throws the reason of `signal`
   */
  async run(
    toOrder: () => ExecutionOrder,
    suspect: boolean,
    signal: AbortSignal,
  ): Promise<PlacedExecution> {
    return this.#whenFree(suspect, signal, (worker) => {
      const run = worker.start(toOrder())
      if (suspect) this.#suspects.add(run)
      return { run, worker }
    })
  }

  /** @throws OsmosisError with code `worker_lost` when the worker ends before it answers */
  async ask(value: unknown): Promise<unknown> {
    const { signal } = this.#closing
    const worker = await this.#whenFree(false, signal, (free) => free)
    return worker.ask(value)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all([...this.#workers].map(async (worker) => worker.close()))
  }

  #add(): WorkerProcess {
    const worker = new WorkerProcess(this.#processOptions, () => this.#assign())
    this.#workers.add(worker)
    return worker
  }

  #remove(worker: WorkerProcess): void {
    if (this.#workers.delete(worker)) this.#pastCpuSeconds += worker.usage.cpuSeconds
  }

  /** A module that cannot be loaded fails immediately; a start that failed, or a kill from outside, is tried again. */
  async #startFirst(): Promise<WorkerProcess> {
    for (let starts = 1; ; starts += 1) {
      const worker = this.#add()
      try {
        await worker.ready
        return worker
      } catch (error) {
        const { what } = await worker.ended
        this.#remove(worker)
        if (!isOsmosisError(error) || error.code !== 'worker_lost') throw error
        this.#closing.signal.throwIfAborted()
        if (starts === mostFirstStarts) {
          const message = `A worker was started ${starts} times, but never became ready: ${what}.`
          throw new OsmosisError('worker_lost', message)
        }
        await this.#makeWay(worker, backoffMs(starts))
      }
    }
  }

  /** Replaces each worker that ends. */
  async #keepUp(first: WorkerProcess): Promise<void> {
    let failures = 0
    for (let worker = first; ; worker = this.#add()) {
      const { runs } = await worker.ended
      this.#remove(worker)
      if (this.#closing.signal.aborted) return
      const started = await this.#hasStarted(worker)
      const livedMs = performance.now() - worker.startedAt
      const isHealthy = started && (worker.hasFinished || livedMs > healthyMs)
      // A suspect may have ended it, which does not happen again: a rollout is lost twice at most.
      const isFailure = !isHealthy && !runs.some((run) => this.#suspects.has(run))
      if (isHealthy) failures = 0
      else if (isFailure) failures += 1
      await this.#makeWay(worker, isFailure ? backoffMs(failures) : 0)
    }
  }

  /** Waits until the successor of a worker that has ended may be started. */
  async #makeWay(worker: WorkerProcess, restartMs: number): Promise<void> {
    const { what, reason, runs } = await worker.ended
    try {
      this.#options.onWorkerEnd?.({ pid: worker.pid, what, rollouts: runs.length, restartMs })
    } catch (error) {
      // Code of the user must not cost the pool a worker.
      process.emitWarning(`onWorkerEnd failed: ${errorMessage(error)}`, 'OsmosisWarning')
    }
    await wait(restartMs, this.#closing.signal)
    this.#restarts[reason] += 1
  }

  /** After several failures in a row, rollouts no longer wait for the next start. */
  async #hasStarted(worker: WorkerProcess): Promise<boolean> {
    try {
      await worker.ready
      this.#failedStarts = 0
      return true
    } catch (error) {
      this.#failedStarts += 1
      const isHopeless = ![...this.#workers].some(({ isOpen }) => isOpen)
      if (this.#failedStarts < enoughFailures || !isHopeless) return false
      for (const { giveUp } of this.#waiting) giveUp(error as Error)
      return false
    }
  }

  #choose(suspect: boolean): WorkerProcess | undefined {
    const open = [...this.#workers].filter(({ isOpen }) => isOpen)
    const keptFree = suspect ? undefined : this.#keptFree(open)
    const admitting = open.filter((worker) => worker !== keptFree && this.#admits(worker, suspect))
    const [best] = admitting.toSorted(
      (a, b) => Number(b.isResponsive) - Number(a.isResponsive) || a.runs.size - b.runs.size,
    )
    return best
  }

  /**
   * The worker that a waiting suspect gets next, because it has the fewest repeatable rollouts. No others
   * are assigned to it, or else the suspect would wait forever on a busy server.
   */
  #keptFree(open: readonly WorkerProcess[]): WorkerProcess | undefined {
    if (this.#waitingSuspects.size === 0) return undefined
    const [next] = open.toSorted(
      (a, b) =>
        Number(b.isResponsive) - Number(a.isResponsive) || repeatableIn(a) - repeatableIn(b),
    )
    return next
  }

  #admits({ runs }: WorkerProcess, suspect: boolean): boolean {
    for (const run of runs.values()) {
      if (run.isRepeatable && (suspect || this.#suspects.has(run))) return false
    }
    return true
  }

  /** Calls `begin` synchronously with a worker as soon as one is free. */
  async #whenFree<T>(
    suspect: boolean,
    signal: AbortSignal,
    begin: (worker: WorkerProcess) => T,
  ): Promise<T> {
    const free = this.#choose(suspect)
    if (free !== undefined) return begin(free)
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const take = (worker: WorkerProcess): void => {
      try {
        resolve(begin(worker))
      } catch (error) {
        reject(error)
      }
    }
    const waiter: Waiter = { suspect, take, giveUp: reject }
    this.#waiting.add(waiter)
    if (suspect) this.#waitingSuspects.add(waiter)
    try {
      return await untilAborted(signal, async () => promise)
    } finally {
      // A worker may have been reserved for it.
      if (this.#stopWaiting(waiter) && suspect) this.#assign()
    }
  }

  /** Returns whether it was waiting. */
  #stopWaiting(waiter: Waiter): boolean {
    this.#waitingSuspects.delete(waiter)
    return this.#waiting.delete(waiter)
  }

  #assign(): void {
    for (const waiter of this.#waiting) {
      const worker = this.#choose(waiter.suspect)
      if (worker === undefined) continue
      this.#stopWaiting(waiter)
      waiter.take(worker)
    }
  }
}

/** Number of executions that could be repeated if the worker ended. */
function repeatableIn({ runs }: WorkerProcess): number {
  return [...runs.values()].filter(({ isRepeatable }) => isRepeatable).length
}

/** @param failures - number of consecutive failures */
function backoffMs(failures: number): number {
  return Math.min(firstBackoffMs * 2 ** (failures - 1), longestBackoffMs)
}

function fairShareMegabytes(workers: number): number {
  const mebibyte = 2 ** 20
  const share = spendableBytes() / workers
  return Math.floor(Math.min(share, getHeapStatistics().heap_size_limit) / mebibyte)
}
