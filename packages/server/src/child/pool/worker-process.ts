import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { Readable } from 'node:stream'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { runOutsideRollout } from '@osmosis/core/http'

import { runInRollout, type RolloutScope } from '../../containment/user-code.ts'
import { exitReportPipe } from '../exit-report.ts'
import { portable } from '../portable-values.ts'
import { receiveError } from '../sent-errors.ts'
import type {
  ParentMessage,
  ProcessUsage,
  ReadyMessage,
  ExecutionMessage,
  WorkerMessage,
} from '../worker-messages.ts'
import {
  countOutOfMemory,
  endReason,
  endText,
  exitReportOf,
  startChild,
  type WorkerEndReason,
  type WorkerProcessOptions,
} from './child-process.ts'
import { RemoteExecution, WorkerLoss, type ExecutionOrder } from './remote-execution.ts'

/** A process that has ended. */
export interface EndedWorker {
  /** What happened, as one sentence without a full stop. */
  readonly what: string
  /** The same without its subject. */
  readonly how: string
  readonly reason: WorkerEndReason
  /** The executions in it. */
  readonly runs: readonly RemoteExecution[]
}

/** Loading code may block longer than running it. */
const longestLoadMs = 60_000
/** How long the pipes of an ended process are read. */
const pipesMs = 5_000
/** How long a process may take to exit before it is killed. */
const patienceMs = 2_000

/** Memory of a process besides its heap: code and buffers of ordinary size. */
const spareMegabytes = 256

/** A heap of this size may fill up between two checks. */
const smallHeapMegabytes = 512

const closedChannel = 'was ended because it closed the channel to its parent'
const invalidMessage = 'was ended because it wrote to the channel to its parent'

let runNumbers = 0

/** One child process and its executions. */
export class WorkerProcess {
  readonly runs = new Map<number, RemoteExecution>()
  /** Resolves when it accepts rollouts; rejects when it never will. */
  readonly ready: Promise<ReadyMessage>
  /** Resolves after it has ended and its executions were notified. Never rejects. */
  readonly ended: Promise<EndedWorker>
  readonly startedAt = performance.now()
  readonly #options: WorkerProcessOptions
  readonly #child: ChildProcess
  readonly #onChange: () => void
  readonly #ready = Promise.withResolvers<ReadyMessage>()
  readonly #questions = new Map<number, PromiseWithResolvers<unknown>>()
  readonly #tickMs: number
  #silentTicks = 0
  /** Number of ticks in which it worked on rollouts without ending one. */
  #ticksWithoutEnd = 0
  #isReady = false
  #hasExited = false
  #hasFinished = false
  #usage: ProcessUsage = { residentBytes: 0, cpuSeconds: 0 }
  #loss: WorkerLoss | undefined
  #endedFor: Pick<EndedWorker, 'how' | 'reason'> | undefined

  /** @param onChange - called when it may accept another rollout */
  constructor(options: WorkerProcessOptions, onChange: () => void) {
    const { stallTimeoutSeconds, progressTimeoutSeconds = Infinity, heapMegabytes } = options
    this.#options = options
    this.#onChange = onChange
    const shortest = Math.min(stallTimeoutSeconds, progressTimeoutSeconds)
    this.#tickMs = Math.min(1000, (shortest * 1000) / 10)
    this.ready = this.#ready.promise
    this.ready.catch(() => {})
    this.#child = runInRollout(this.#channelScope(), () => startChild(options))
    this.#child.on('message', (message: WorkerMessage) => {
      runOutsideRollout(() => this.#receive(message))
    })
    this.ended = this.#watchEnd(options)
    this.#watchLoop(options)
    this.#watchChannel()
    this.#send({
      type: 'watch',
      beatMs: this.#tickMs,
      maxMemoryBytes: maxMemoryBytes(heapMegabytes * 2 ** 20),
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** What it prints, where its `output` is a pipe. */
  get output(): readonly Readable[] {
    // A process that could not be started may have none.
    return [this.#child.stdout, this.#child.stderr].filter((stream) => stream instanceof Readable)
  }

  /** Whether it accepts rollouts. */
  get isOpen(): boolean {
    return this.#isReady && !this.#hasExited
  }

  /** Whether its event loop turned recently. */
  get isResponsive(): boolean {
    return this.#silentTicks < 3
  }

  /** Whether the workflow of a rollout has ended in it. */
  get hasFinished(): boolean {
    return this.#hasFinished
  }

  /** Its resources as last reported. */
  get usage(): ProcessUsage {
    return this.#usage
  }

  /** Starts an execution. */
  start(order: ExecutionOrder): RemoteExecution {
    runNumbers += 1
    const run = new RemoteExecution(runNumbers, order, (message) => this.#send(message))
    run.start()
    this.runs.set(run.number, run)
    return run
  }

  /** Messages about the execution are ignored from now on. */
  forget(run: RemoteExecution): void {
    run.endCalls()
    if (this.runs.delete(run.number)) this.#onChange()
  }

  /** @throws the error of the answer; {@link WorkerLoss} when the process ends */
  async ask(value: unknown): Promise<unknown> {
    if (this.#loss !== undefined) throw this.#loss
    runNumbers += 1
    const question = runNumbers
    const answer = Promise.withResolvers<unknown>()
    this.#questions.set(question, answer)
    this.#send({ type: 'question', question, value })
    return answer.promise
  }

  kill(): void {
    this.#signal('SIGKILL')
  }

  /** Ends the process. Resolves when it has exited; it is killed when it has not exited after this time. */
  async close(closeMs = patienceMs): Promise<void> {
    this.#send({ type: 'leave' })
    if (this.#options.hasOwnGroup) this.#signal('SIGTERM')
    const force = setTimeout(() => this.kill(), closeMs)
    await this.ended
    clearTimeout(force)
  }

  #send(message: ParentMessage): void {
    if (!this.#child.connected) return
    try {
      this.#child.send(message, () => {})
    } catch {
      this.#child.send(portable(message) as ParentMessage, () => {})
    }
  }

  /** User code can write to the channel as well: a worker that sends an invalid message is killed. */
  #receive(message: WorkerMessage): void {
    try {
      this.#handle(message)
    } catch {
      this.#kill(invalidMessage, 'exit')
    }
  }

  /** An unreadable message is an uncaught error in the scope that the channel was opened in. */
  #channelScope(): RolloutScope {
    const fail = (): boolean => {
      this.#kill(invalidMessage, 'exit')
      return true
    }
    return { rolloutId: 'of a worker', part: 'workflow', fail }
  }

  #handle(message: WorkerMessage): void {
    this.#silentTicks = 0
    switch (message.type) {
      case 'beat':
        this.#usage = message
        return
      case 'ready':
        this.#isReady = true
        this.#ready.resolve(message)
        break
      case 'refused': {
        const error = receiveError(message.error)
        this.#endedFor ??= { how: `could not load: ${errorMessage(error)}`, reason: 'start' }
        this.#ready.reject(error)
        return
      }
      case 'answer':
        this.#questions.get(message.question)?.resolve(message.value)
        this.#questions.delete(message.question)
        return
      case 'no-answer':
        this.#questions.get(message.question)?.reject(receiveError(message.error))
        this.#questions.delete(message.question)
        return
      case 'event':
      case 'partial':
      case 'policy-called':
      case 'call':
      case 'call-ended':
        this.#handleRun(message)
    }
    this.#onChange()
  }

  #handleRun(message: ExecutionMessage): void {
    const run = this.runs.get(message.run)
    run?.handle(message)
    if (message.type === 'event' && message.event.type !== 'started') {
      this.#ticksWithoutEnd = 0
      if (message.event.type === 'workflow') this.#hasFinished = true
    }
    if (run?.hasEnded) this.forget(run)
  }

  /** Counts ticks of this process, so that a worker is not silent when this process is blocked. */
  #watchLoop({
    stallTimeoutSeconds,
    progressTimeoutSeconds = Infinity,
    heapMegabytes,
  }: WorkerProcessOptions): void {
    const ticks = setInterval(() => {
      const isAtWork = [...this.runs.values()].some((run) => run.isAtWork)
      this.#ticksWithoutEnd = isAtWork ? this.#ticksWithoutEnd + 1 : 0
      if (this.#ticksWithoutEnd * this.#tickMs >= progressTimeoutSeconds * 1000) {
        this.#kill(`ended no rollout for more than ${progressTimeoutSeconds} s`, 'stuck')
      }
      this.#silentTicks += 1
      const silentMs = this.#silentTicks * this.#tickMs
      const limitMs = stallTimeoutSeconds * 1000
      if (silentMs < (this.#isReady ? limitMs : Math.max(limitMs, longestLoadMs))) return
      this.#kill(stallText(silentMs / 1000, memoryMegabytes(this.pid), heapMegabytes), 'stall')
    }, this.#tickMs)
    ticks.unref()
    this.ended.finally(() => clearInterval(ticks)).catch(() => {})
  }

  /** A process closes its channel shortly before it exits; one that continues without it cannot work. */
  #watchChannel(): void {
    this.#child.once('disconnect', () => {
      this.#hasExited = true
      const late = setTimeout(() => this.#kill(closedChannel, 'exit'), patienceMs)
      this.ended.finally(() => clearTimeout(late)).catch(() => {})
    })
  }

  #kill(how: string, reason: WorkerEndReason): void {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#endedFor ??= { how, reason }
    this.#signal('SIGKILL')
  }

  #signal(signal: NodeJS.Signals): void {
    const { pid, exitCode, signalCode } = this.#child
    if (pid === undefined || exitCode !== null || signalCode !== null) return
    try {
      process.kill(this.#options.hasOwnGroup ? -pid : pid, signal)
    } catch {
      // It has ended in the meantime.
    }
  }

  async #watchEnd({ name, heapMegabytes }: WorkerProcessOptions): Promise<EndedWorker> {
    const child = this.#child
    const exitReport = exitReportOf(child)
    const outOfMemory = countOutOfMemory()
    type End = Pick<EndedWorker, 'how' | 'reason'>
    const { how, reason } = await new Promise<End>((resolve) => {
      child.on('error', ({ message }) =>
        resolve({ how: `could not be started: ${message}`, reason: 'start' }),
      )
      child.once('exit', (code, signal) => {
        this.#hasExited = true
        const report = (): void => {
          clearTimeout(late)
          const ended = exitReport().then(({ first, isLarge }): End => {
            const now = countOutOfMemory()
            const ranOutOfMemory = now === undefined ? undefined : now !== outOfMemory
            const mayBeFull = isLarge || heapMegabytes <= smallHeapMegabytes
            const end = { code, signal, ranOutOfMemory, mayBeFull }
            return (
              this.#endedFor ?? {
                how: endText(end, first, heapMegabytes),
                reason: endReason(end, first),
              }
            )
          })
          resolve(ended)
        }
        // The pipes may contain messages from before the exit, which count.
        child.once('close', report)
        const late = setTimeout(() => {
          this.#assumePolicyCalls()
          report()
        }, pipesMs)
      })
    })
    this.#hasExited = true
    const runs = [...this.runs.values()]
    const what = `${name} ${how}`
    this.#endAll(what, reason)
    return { what, how, reason, runs }
  }

  /** Another process keeps the pipes open, and they may contain the mark: no execution is repeated. */
  #assumePolicyCalls(): void {
    for (const run of this.runs.values()) run.handle({ type: 'policy-called', run: run.number })
    this.#child.stdio[exitReportPipe]?.destroy()
  }

  #endAll(what: string, reason: WorkerEndReason): void {
    // A process that the system did not start, or that was killed from outside, says nothing about the entrypoint.
    const isCode = this.#child.pid !== undefined && reason !== 'killed' && reason !== 'signal'
    const early = `Before it was ready, ${what}.`
    this.#ready.reject(new OsmosisError(isCode ? 'invalid_entrypoint' : 'worker_lost', early))
    const loss = (this.#loss = new WorkerLoss(what))
    for (const { reject } of this.#questions.values()) reject(loss)
    for (const run of this.runs.values()) run.lose(loss)
  }
}

/**
 * Memory for all workers together: three quarters of that of the machine or container. When a container
 * runs out of memory, all its processes may be killed, including the parent.
 */
export function spendableBytes(): number {
  // 0, or more than the machine has, means no limit.
  return Math.min(totalmem(), process.constrainedMemory() || Infinity) * 0.75
}

/** The memory at which a worker is killed. It always has room for a full heap. */
function maxMemoryBytes(heapBytes: number): number {
  const spareBytes = spareMegabytes * 2 ** 20
  return Math.min(heapBytes * 2 + spareBytes, Math.max(heapBytes + spareBytes, spendableBytes()))
}

/** Names the memory when it may be the cause: garbage collection of a nearly full heap blocks as well. */
function stallText(seconds: number, megabytes: number, heapMegabytes: number): string {
  const what = `blocked its event loop for more than ${seconds} s`
  return megabytes < (heapMegabytes + spareMegabytes) / 2
    ? what
    : `${what}, and used ${megabytes} MiB of memory`
}

/** Memory of another process; 0 when unknown. */
function memoryMegabytes(pid: number | undefined): number {
  try {
    const [, kilobytes] =
      /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Math.round(Number(kilobytes ?? 0) / 1024)
  } catch {
    return 0
  }
}
