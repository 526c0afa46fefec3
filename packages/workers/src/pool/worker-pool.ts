import { availableParallelism } from 'node:os'
import { getHeapStatistics } from 'node:v8'

import { OsmosisError } from '@osmosis/core'
import { untilAborted, wait } from '@osmosis/core/http'

import type { ProcessUsage, ReadyMessage } from '../protocol/worker-messages.ts'
import type { RemoteExecution, ExecutionOrder } from './remote-execution.ts'
import type { WorkerEndReason, WorkerProcessOptions } from './child-process.ts'
import { spendableBytes, WorkerProcess } from './worker-process.ts'

/** How the workers of a pool are started. */
export interface WorkerPoolOptions {
  /** The file that calls `runWorker`. */
  readonly module: string
  /** Its arguments. Default: none. */
  readonly args?: readonly string[] | undefined
  /** Arguments of Node.js for workers. Default: those of this process. */
  readonly execArgv?: readonly string[] | undefined
  /** Where they run. Default: where this process does. */
  readonly cwd?: string | undefined
  /**
   * Their variables. Default: those of this process. The key of its server,
   * `OSMOSIS_ROLLOUT_SERVER_API_KEY`, is not among them in any case.
   */
  readonly env?: NodeJS.ProcessEnv | undefined
  /** How many processes. Default: one for each core. */
  readonly workers?: number | undefined
  /** A worker whose event loop is blocked for longer is killed. Seconds; default 30. */
  readonly stallTimeoutSeconds?: number | undefined
  /**
   * A worker that has rollouts to run, and has ended none of them for longer, is killed. Seconds; default:
   * none is killed for that.
   */
  readonly progressTimeoutSeconds?: number | undefined
  /**
   * Limit of the heap of a worker. One that takes twice as much and 256 MiB of memory in all, with its
   * buffers, is killed, and so is one that takes three quarters of the memory of the machine, or of the
   * container where that has less. MiB; default: what Node.js allows a process, but no more than these
   * three quarters for all workers together.
   */
  readonly heapMegabytes?: number | undefined
  /** Called when a worker has ended, other than by closing, or its successor cannot start. */
  readonly onWorkerEnd?: ((end: WorkerEnd) => void) | undefined
}

/** The end of a worker. */
export interface WorkerEnd {
  readonly pid: number | undefined
  /** What happened, as one sentence without its end. */
  readonly what: string
  /** Rollouts that were in it. */
  readonly rollouts: number
  /** When its successor is started. Milliseconds from now. */
  readonly restartMs: number
}

const firstBackoffMs = 250
const longestBackoffMs = 30_000
/** A worker that lived for this long was able to live, although it had nothing to do. */
const healthyMs = 10_000
/** Successors that cannot start one after the other, before rollouts no longer wait for them. */
const enoughFailures = 3

/** How often a worker is started that is killed from outside while it loads for the first time. */
const mostFirstStarts = 3

/** What waits for a worker. */
interface Waiter {
  readonly suspect: boolean
  readonly take: (worker: WorkerProcess) => void
  readonly giveUp: (error: Error) => void
}

/** A run and the worker that it is in. */
export interface PlacedExecution {
  readonly run: RemoteExecution
  readonly worker: WorkerProcess
}

/** Keeps as many workers as there should be, and gives rollouts a place in one of them. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions
  readonly #processOptions: WorkerProcessOptions
  readonly #workers = new Set<WorkerProcess>()
  readonly #suspects = new WeakSet<RemoteExecution>()
  readonly #waiting = new Set<Waiter>()
  /** Those of them that are suspects. */
  readonly #waitingSuspects = new Set<Waiter>()
  readonly #closing = new AbortController()
  #failedStarts = 0
  /** All of them from the start: Prometheus sees no increase to a first figure. */
  readonly #restarts: Record<WorkerEndReason, number> = {
    exit: 0,
    uncaught: 0,
    memory: 0,
    stall: 0,
    stuck: 0,
    broken: 0,
    killed: 0,
    crash: 0,
    signal: 0,
    start: 0,
  }
  /** Of workers that have ended. */
  #pastCpuSeconds = 0

  constructor(options: WorkerPoolOptions) {
    this.#options = options
    const { workers = availableParallelism(), stallTimeoutSeconds = 30 } = options
    this.#processOptions = {
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

  /** Workers that have been replaced so far, by why they ended. */
  get restarts(): Readonly<Record<WorkerEndReason, number>> {
    return { ...this.#restarts }
  }

  /** What the workers take together; CPU time includes that of those before them. */
  get usage(): ProcessUsage {
    let residentBytes = 0
    let cpuSeconds = this.#pastCpuSeconds
    for (const { usage } of this.#workers) {
      residentBytes += usage.residentBytes
      cpuSeconds += usage.cpuSeconds
    }
    return { residentBytes, cpuSeconds }
  }

  /** The ids of the worker processes there are. */
  get pids(): number[] {
    return [...this.#workers].flatMap(({ pid }) => pid ?? [])
  }

  /**
   * Starts all workers and resolves when they take rollouts.
   *
   * @throws what the first of them said that cannot; OsmosisError with code `worker_lost` when one was
   * killed from outside each time
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
   * Begins a run in the worker that has least to do, as soon as there is one.
   *
   * @param suspect - whether the rollout was in a worker that ended. It is then executed where no other
   * rollout could be executed again, and until it has called the policy no other is started there: a second
   * worker that it ends then takes no rollout with it that could have been saved.
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
    const worker = new WorkerProcess(this.#processOptions, () => this.#handOut())
    this.#workers.add(worker)
    return worker
  }

  #remove(worker: WorkerProcess): void {
    if (this.#workers.delete(worker)) this.#pastCpuSeconds += worker.usage.cpuSeconds
  }

  /** What cannot be loaded fails at once; that somebody killed the process says nothing about it. */
  async #startFirst(): Promise<WorkerProcess> {
    for (let starts = 1; ; starts += 1) {
      const worker = this.#add()
      try {
        await worker.ready
        return worker
      } catch (error) {
        const { what, reason } = await worker.ended
        this.#remove(worker)
        if (reason !== 'killed' && reason !== 'signal') throw error
        this.#closing.signal.throwIfAborted()
        if (starts === mostFirstStarts) {
          const message = `A worker was started ${starts} times, and never could take rollouts: ${what}.`
          throw new OsmosisError('worker_lost', message)
        }
        await this.#makeWay(worker, backoffMs(starts))
      }
    }
  }

  /** Puts a successor in the place of each worker that ends. */
  async #keepUp(first: WorkerProcess): Promise<void> {
    let failures = 0
    for (let worker = first; ; worker = this.#add()) {
      const { runs } = await worker.ended
      this.#remove(worker)
      if (this.#closing.signal.aborted) return
      const started = await this.#hasStarted(worker)
      const livedMs = performance.now() - worker.startedAt
      const isHealthy = started && (worker.hasFinished || livedMs > healthyMs)
      // Nor does the worker fail by a suspect, which brings down no third one.
      const isFailure = !isHealthy && !runs.some((run) => this.#suspects.has(run))
      if (isHealthy) failures = 0
      else if (isFailure) failures += 1
      await this.#makeWay(worker, isFailure ? backoffMs(failures) : 0)
    }
  }

  /** Waits until the successor of a worker that has ended may be started. */
  async #makeWay(worker: WorkerProcess, restartMs: number): Promise<void> {
    const { what, reason, runs } = await worker.ended
    this.#options.onWorkerEnd?.({ pid: worker.pid, what, rollouts: runs.length, restartMs })
    await wait(restartMs, this.#closing.signal)
    this.#restarts[reason] += 1
  }

  /** After some failures in a row nothing waits for the next attempt any more. */
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
   * The worker that is the next to have nothing that could be run again, while a suspect waits for one.
   * What comes later goes elsewhere, or waits: on a busy server the suspect would wait for ever.
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

  /** Calls `begin` with the worker as soon as there is one, in that very moment. */
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
      // Others may have waited for it to be placed.
      if (this.#stopWaiting(waiter) && suspect) this.#handOut()
    }
  }

  /** Returns whether it was waiting. */
  #stopWaiting(waiter: Waiter): boolean {
    this.#waitingSuspects.delete(waiter)
    return this.#waiting.delete(waiter)
  }

  #handOut(): void {
    for (const waiter of this.#waiting) {
      const worker = this.#choose(waiter.suspect)
      if (worker === undefined) continue
      this.#stopWaiting(waiter)
      waiter.take(worker)
    }
  }
}

/** Runs that could be run again, should the worker end. */
function repeatableIn({ runs }: WorkerProcess): number {
  return [...runs.values()].filter(({ isRepeatable }) => isRepeatable).length
}

/** @param failures - of workers one after the other */
function backoffMs(failures: number): number {
  return Math.min(firstBackoffMs * 2 ** (failures - 1), longestBackoffMs)
}

function fairShareMegabytes(workers: number): number {
  const mebibyte = 2 ** 20
  const share = spendableBytes() / workers
  return Math.floor(Math.min(share, getHeapStatistics().heap_size_limit) / mebibyte)
}
