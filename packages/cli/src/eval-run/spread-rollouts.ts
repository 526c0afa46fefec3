import { availableParallelism } from 'node:os'

import { errorMessage } from '@osmosis/core'
import { wait } from '@osmosis/core/http'

import type { ServerProcess } from './server-process.ts'
import { ThreadWatch, type ThreadLook } from './thread-watch.ts'

/** How often the thread is looked at. Milliseconds. */
const lookMs = 2_000
/** Looks one after the other that find it busy: one alone may be the start of many rollouts. */
const busyLooks = 2
/** Of the time, from which on the thread of the server is what the rollouts wait for. */
const busyShare = 0.7
/** Of the thread for each rollout: less is the protocol, which workers do not take over. Milliseconds. */
const leastMsPerRollout = 5
/** What is left must last for so long: workers take a moment to start. Milliseconds. */
const leastRestMs = 10_000
/** A run that is shorter gains nothing that anybody would notice. Milliseconds. */
const shortestMs = 2_000

/** What a run has before it, and whom to ask and to tell. */
export interface SpreadRun {
  /** Items that are to be run. */
  readonly items: number
  /** How many of them at the same time. */
  readonly inFlight: number
  /** Whether the files of the run are still those that it began with. */
  readonly isUnchanged: () => Promise<boolean>
  /** Takes a line for people. */
  readonly say: (line: string) => void
}

/** Serves the same entrypoint again, in so many workers. */
export type StartWorkers = (workers: number, signal: AbortSignal) => Promise<ServerProcess>

/**
 * Where the rollouts of a run go: to the process that was served first, and from when user code is seen
 * to keep the thread of that busy to a second one, with workers. What is under way ends where it began.
 */
export class SpreadRollouts {
  readonly #first: ServerProcess
  readonly #startWorkers: StartWorkers
  readonly #thread: ThreadWatch
  readonly #died = new AbortController()
  readonly #stopped = new AbortController()
  #current: ServerProcess
  #workers: ServerProcess | undefined
  #watching: Promise<void> | undefined
  /** Whether workers run the rest, or cannot: there is no advice to give. */
  #isDecided = false
  #logFile: string | undefined
  #started = 0
  #ended = 0

  constructor(first: ServerProcess, startWorkers: StartWorkers) {
    this.#first = first
    this.#current = first
    this.#startWorkers = startWorkers
    this.#thread = new ThreadWatch(first)
    this.#follow(first)
  }

  /** Aborted, with the reason, when a process that rollouts went to ends. */
  get died(): AbortSignal {
    return this.#died.signal
  }

  /** Writes what the processes print to the end of a file. */
  logTo(file: string): void {
    this.#logFile = file
    this.#first.logTo(file)
  }

  /** Gives `work` the server that a rollout which starts now goes to. */
  async run<T>(work: (server: ServerProcess) => Promise<T>): Promise<T> {
    this.#started += 1
    try {
      return await work(this.#current)
    } finally {
      this.#ended += 1
    }
  }

  /** Begins to watch a run, and lets workers run the rest of it when that pays. */
  watch(run: SpreadRun): void {
    this.#watching = this.#watch(run)
  }

  /** Ends watching; what would have made the run shorter, as a sentence, undefined when nothing would. */
  async advise(): Promise<string | undefined> {
    await this.#stop()
    if (this.#watching === undefined || this.#isDecided) return undefined
    await this.#thread.look()
    const { total } = this.#thread
    if (total.ms < shortestMs || !this.#isHeldUp(total)) return undefined
    const percent = Math.floor((100 * total.busyMs) / total.ms)
    return `The workflow kept its thread busy for ${percent} % of the time. --workers auto runs rollouts on all ${availableParallelism()} cores.`
  }

  /** Ends the processes. Idempotent. */
  async close(): Promise<void> {
    await this.#stop()
    await Promise.all([this.#first.close(), this.#workers?.close()])
  }

  async #watch(run: SpreadRun): Promise<void> {
    const { signal } = this.#stopped
    await this.#thread.look(signal)
    const { graderSlots } = this.#first
    // For as long as both processes have rollouts, each of them would fill all these slots.
    if (graderSlots !== null && graderSlots < run.inFlight) return
    let busy = 0
    while (busy < busyLooks || !this.#lasts(run)) {
      // A run that is about to end is not looked at again.
      if (this.#started >= run.items || !(await waited(lookMs, signal))) return
      busy = this.#isHeldUp(await this.#thread.look(signal)) ? busy + 1 : 0
    }
    this.#isDecided = true
    const workers = this.#affordable(run.inFlight)
    if (workers > 1) await this.#moveTo(workers, run)
  }

  #isHeldUp({ busyMs, ms }: ThreadLook): boolean {
    const { total } = this.#thread
    return busyMs > busyShare * ms && total.busyMs > leastMsPerRollout * this.#started
  }

  /** Whether what has not started would take a while, judged by what has ended. */
  #lasts({ items }: SpreadRun): boolean {
    const rest = items - this.#started
    return rest * this.#thread.total.ms >= leastRestMs * this.#ended && this.#ended > 0
  }

  /** More workers than rollouts at the same time would only wait; each needs what the process has now. */
  #affordable(inFlight: number): number {
    const fitting = Math.floor(process.availableMemory() / this.#thread.memoryBytes)
    return Math.min(availableParallelism(), inFlight, fitting)
  }

  async #moveTo(workers: number, { isUnchanged, say }: SpreadRun): Promise<void> {
    const { signal } = this.#stopped
    try {
      const server = await this.#startWorkers(workers, signal)
      this.#workers = server
      // Two halves of a run by different code would be a result of neither.
      const isSame = await isUnchanged()
      if (signal.aborted) return
      if (!isSame) {
        await server.close()
        say(
          'The workflow keeps its thread busy, but its files have changed: all rollouts of this run stay in one process.',
        )
        return
      }
      if (this.#logFile !== undefined) server.logTo(this.#logFile)
      this.#follow(server)
      this.#current = server
      say(
        `The workflow keeps its thread busy: the rollouts to come run in ${workers} worker processes. --workers 0 keeps them in one.`,
      )
    } catch (error) {
      if (signal.aborted) return
      say(
        `warning: The workflow keeps its thread busy, but goes on in one process: workers cannot be started. ${errorMessage(error)}`,
      )
    }
  }

  #follow({ died }: ServerProcess): void {
    const onDeath = (): void => this.#died.abort(died.reason)
    if (died.aborted) onDeath()
    died.addEventListener('abort', onDeath, { once: true })
  }

  async #stop(): Promise<void> {
    this.#stopped.abort(new Error('The run has ended.'))
    await this.#watching
  }
}

/** False when there is nothing to wait for any more. */
async function waited(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await wait(ms, signal)
    return true
  } catch {
    return false
  }
}
