import { ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'

import { exitReportPipe, parseExitReport, type ExitReport } from '../exit-report.ts'

/** How a child process is started and watched. */
export interface WorkerProcessOptions {
  /** What messages call it. */
  readonly name: string
  readonly module: string
  readonly args: readonly string[]
  readonly execArgv: readonly string[]
  /** Undefined: that of this process. */
  readonly cwd: string | undefined
  /** Undefined: those of this process. */
  readonly env: NodeJS.ProcessEnv | undefined
  readonly output: 'inherit' | 'pipe' | 'ignore'
  /** Whether Ctrl-C does not reach it, and this process ends it with the processes that its user code has started. */
  readonly hasOwnGroup: boolean
  readonly stallTimeoutSeconds: number
  /** Undefined: no limit. */
  readonly progressTimeoutSeconds: number | undefined
  /** Limit of the heap. The limit of all memory follows from it. Infinity: neither has one of ours. */
  readonly heapMegabytes: number
}

/**
 * V8 predicts which objects live long, and wrongly places those of rollouts among them, where they keep
 * everything they refer to until a full collection.
 */
const disablePretenuring = '--no-allocation-site-pretenuring'

/** Never throws: a process that cannot be started emits an error. */
export function startChild(options: WorkerProcessOptions): ChildProcess {
  const { module, args, execArgv, cwd, output, hasOwnGroup, heapMegabytes } = options
  const heap = heapMegabytes === Infinity ? [] : [`--max-old-space-size=${heapMegabytes}`]
  // oxlint-disable-next-line node/no-process-env -- the default environment of a child
  const { OSMOSIS_ROLLOUT_SERVER_API_KEY: _, ...env } = options.env ?? process.env
  try {
    return fork(module, args, {
      execArgv: [...execArgv, ...heap, disablePretenuring],
      ...(cwd === undefined ? {} : { cwd }),
      env,
      serialization: 'advanced',
      detached: hasOwnGroup,
      stdio: ['ignore', output, output, 'ipc', 'pipe'],
    })
  } catch (error) {
    const child = new ChildProcess()
    process.nextTick(() => child.emit('error', error))
    return child
  }
}

/** Reads the exit report of a process, the first that it sent, and whether it was large. */
export function exitReportOf(
  child: ChildProcess,
): () => Promise<{ first: ExitReport | undefined; isLarge: boolean }> {
  // A process that could not be started has no pipes.
  const pipes: readonly unknown[] | null | undefined = child.stdio
  const pipe = pipes?.[exitReportPipe]
  const written = pipe instanceof Readable ? text(pipe).catch(() => '') : Promise.resolve('')
  return async () => {
    const lines = (await written).split('\n')
    const all = lines.map(parseExitReport).filter((report) => report !== undefined)
    return {
      first: all.find(({ kind }) => kind !== 'large'),
      isLarge: all.some(({ kind }) => kind === 'large'),
    }
  }
}

/** How a process ended, according to the operating system. */
export interface ProcessEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** Whether the system killed processes meanwhile because memory ran out; undefined when unknown. */
  readonly ranOutOfMemory: boolean | undefined
  /** Whether its heap may have been full. */
  readonly mayBeFull: boolean
}

/** Exit code of Node.js when a top-level await never settles. */
const neverSettled = 13

/** What happened to a worker process, as text: "exited with code 0: …". */
export function endText(
  end: ProcessEnd,
  report: ExitReport | undefined,
  heapMegabytes: number,
): string {
  const { code, signal } = end
  if (report?.kind === 'memory') {
    return `was ended because it used more than ${report.megabytes} MiB of memory`
  }
  if (report?.kind === 'uncaught') {
    return `ended because of an uncaught error: ${report.message}${report.place}`
  }
  if (report?.kind === 'abort') return `ended: process.abort was called${report.place}`
  if (signal !== null) return signalText(signal, end, heapMegabytes)
  if (report?.kind === 'exit' && report.place)
    return `exited with code ${code}: process.exit was called${report.place}`
  return code === neverSettled
    ? `exited with code ${code}: its entrypoint awaits something that can never happen`
    : `exited with code ${code}`
}

/** Why a worker process has ended, as the label of a metric. */
export const workerEndReasons = [
  'exit',
  'uncaught',
  'memory',
  'stall',
  'stuck',
  'killed',
  'crash',
  'signal',
  'start',
] as const
export type WorkerEndReason = (typeof workerEndReasons)[number]

/** The reason that {@link endText} describes. */
export function endReason(
  { code, signal, mayBeFull }: ProcessEnd,
  report: ExitReport | undefined,
): WorkerEndReason {
  if (report?.kind === 'abort') return 'exit'
  if (report?.kind === 'memory' || (signal === 'SIGABRT' && mayBeFull)) return 'memory'
  if (report?.kind === 'uncaught') return report.kind
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

/** How many processes the system has killed because memory ran out; undefined when unknown. */
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
    const heap = heapMegabytes === Infinity ? 'its heap' : `its heap of ${heapMegabytes} MiB`
    return `aborted (SIGABRT), probably because ${heap} was full`
  }
  if (signal === 'SIGABRT') {
    return 'aborted (SIGABRT), because Node.js could not continue, for example without a file that user code closed: stderr has the reason'
  }
  return crashes.has(signal) ? `crashed in native code (${signal})` : `was ended by ${signal}`
}
