import { ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'

import { exitReportPipe, parseExitReport, type ExitReport } from '../child/exit-report.ts'

/** How a worker process is started and watched. */
export interface WorkerProcessOptions {
  readonly module: string
  readonly args: readonly string[]
  readonly execArgv: readonly string[]
  /** Undefined: that of this process. */
  readonly cwd: string | undefined
  /** Undefined: those of this process. */
  readonly env: NodeJS.ProcessEnv | undefined
  readonly stallTimeoutSeconds: number
  /** Undefined: it may take any time to end a rollout. */
  readonly progressTimeoutSeconds: number | undefined
  /** Limit of the heap; twice as much and 256 in all ends the process, too, if there is that much. */
  readonly heapMegabytes: number
}

/**
 * V8 guesses which objects will live long, and takes those of a rollout for such. What it guesses wrong keeps
 * everything that it refers to until a full collection.
 */
const disablePretenuring = '--no-allocation-site-pretenuring'

/** A process that cannot be started is one that ends with an error, whatever that is. */
export function startChild(options: WorkerProcessOptions): ChildProcess {
  const { module, args, execArgv, cwd, heapMegabytes } = options
  // oxlint-disable-next-line node/no-process-env -- what a child has is this, unless told otherwise
  const { OSMOSIS_ROLLOUT_SERVER_API_KEY: _, ...env } = options.env ?? process.env
  try {
    return fork(module, args, {
      execArgv: [...execArgv, `--max-old-space-size=${heapMegabytes}`, disablePretenuring],
      ...(cwd === undefined ? {} : { cwd }),
      env,
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc', 'pipe'],
    })
  } catch (error) {
    const child = new ChildProcess()
    process.nextTick(() => child.emit('error', error))
    return child
  }
}

/** Reads what a process says at its end, and whether it was large then. */
export function exitReportOf(
  child: ChildProcess,
): () => Promise<{ last: ExitReport | undefined; isLarge: boolean }> {
  // Of a process that could not be started there are none.
  const pipes: readonly unknown[] | null | undefined = child.stdio
  const pipe = pipes?.[exitReportPipe]
  const said = pipe instanceof Readable ? text(pipe).catch(() => '') : Promise.resolve('')
  return async () => {
    const lines = (await said).split('\n')
    const all = lines.map(parseExitReport).filter((words) => words !== undefined)
    return {
      last: all.find(({ kind }) => kind !== 'large'),
      isLarge: all.some(({ kind }) => kind === 'large'),
    }
  }
}

/** How a process ended, as the operating system knows it. */
export interface ProcessEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** Whether the system ended processes for want of memory meanwhile; undefined: it does not say. */
  readonly ranOutOfMemory: boolean | undefined
  /** Whether its heap may have been full. */
  readonly mayBeFull: boolean
}

/** Of Node.js, for a process that has nothing to do but wait for a module to be loaded. */
const neverSettled = 13

/** What happened to a worker process, as one would say it: "exited with code 0: …". */
export function endText(
  end: ProcessEnd,
  words: ExitReport | undefined,
  heapMegabytes: number,
): string {
  const { code, signal } = end
  if (words?.kind === 'memory') {
    return `was ended because it took more than ${words.megabytes} MiB of memory`
  }
  if (words?.kind === 'uncaught') {
    return `ended because nobody caught an error: ${words.message}${words.place}`
  }
  if (words?.kind === 'abort') return `ended: process.abort was called${words.place}`
  if (words?.kind === 'broken') return `was ended because user code had broken ${words.what}`
  if (signal !== null) return signalText(signal, end, heapMegabytes)
  if (words?.kind === 'exit' && words.place)
    return `exited with code ${code}: process.exit was called${words.place}`
  return code === neverSettled
    ? `exited with code ${code}: its entrypoint awaits something that can never come`
    : `exited with code ${code}`
}

/** Why a worker process has ended, as figures of a pool call it. */
export type WorkerEndReason =
  | 'exit'
  | 'uncaught'
  | 'memory'
  | 'stall'
  | 'stuck'
  | 'broken'
  | 'killed'
  | 'crash'
  | 'signal'
  | 'start'

/** The same as {@link endText}, in a word. */
export function endReason(
  { code, signal, mayBeFull }: ProcessEnd,
  words: ExitReport | undefined,
): WorkerEndReason {
  if (words?.kind === 'abort') return 'exit'
  if (words?.kind === 'memory' || (signal === 'SIGABRT' && mayBeFull)) return 'memory'
  if (words?.kind === 'uncaught' || words?.kind === 'broken') return words.kind
  if (signal === null) return code === null ? 'start' : 'exit'
  if (signal === 'SIGKILL') return 'killed'
  return crashes.has(signal) ? 'crash' : 'signal'
}

const crashes = new Set<NodeJS.Signals>([
  'SIGABRT',
  'SIGSEGV',
  'SIGBUS',
  'SIGILL',
  'SIGFPE',
  'SIGTRAP',
])

/** How many processes the system has ended for want of memory; undefined where it does not say. */
export function countOutOfMemory(): number | undefined {
  try {
    const [, count] = /^oom_kill (\d+)$/m.exec(readFileSync('/proc/vmstat', 'utf8')) ?? []
    return count === undefined ? undefined : Number(count)
  } catch {
    return undefined
  }
}

function signalText(
  signal: NodeJS.Signals,
  { ranOutOfMemory, mayBeFull }: ProcessEnd,
  heapMegabytes: number,
): string {
  if (signal === 'SIGKILL') {
    if (ranOutOfMemory === false) return 'was killed by SIGKILL, which the server did not send'
    const how = ranOutOfMemory === undefined ? 'maybe' : 'probably'
    return `was killed by SIGKILL, ${how} because memory ran out`
  }
  if (signal === 'SIGABRT' && mayBeFull) {
    return `aborted (SIGABRT), probably because its heap of ${heapMegabytes} MiB was full`
  }
  if (signal === 'SIGABRT') {
    return 'aborted (SIGABRT), because Node.js could not continue, for example without a file that user code closed: stderr has the reason'
  }
  return crashes.has(signal) ? `crashed in native code (${signal})` : `was ended by ${signal}`
}
