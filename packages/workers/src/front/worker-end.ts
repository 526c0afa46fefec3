import type { LastWords } from '../child/last-words.ts'

/** How a process ended, as the operating system knows it. */
export interface ProcessEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** Of Node.js, for a process that has nothing to do but wait for a module to be loaded. */
const neverSettled = 13

/** What happened to a worker process, as one would say it: "exited with code 0: …". */
export function endText(
  { code, signal }: ProcessEnd,
  words: LastWords | undefined,
  heapMegabytes: number,
): string {
  if (words?.kind === 'memory') {
    return `was ended because it took more than ${words.megabytes} MiB of memory`
  }
  if (words?.kind === 'uncaught') {
    return `ended because nobody caught an error: ${words.message}${words.place}`
  }
  if (words?.kind === 'abort') return `ended: process.abort was called${words.place}`
  if (signal !== null) return signalText(signal, heapMegabytes)
  if (words?.place) return `exited with code ${code}: process.exit was called${words.place}`
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
  | 'killed'
  | 'crash'
  | 'signal'
  | 'start'

/** The same as {@link endText}, in a word. */
export function endReason(
  { code, signal }: ProcessEnd,
  words: LastWords | undefined,
): WorkerEndReason {
  if (words?.kind === 'abort') return 'exit'
  if (words?.kind === 'memory' || signal === 'SIGABRT') return 'memory'
  if (words?.kind === 'uncaught') return 'uncaught'
  if (signal === null) return code === null ? 'start' : 'exit'
  if (signal === 'SIGKILL') return 'killed'
  return crashes.has(signal) ? 'crash' : 'signal'
}

const crashes = new Set<NodeJS.Signals>(['SIGSEGV', 'SIGBUS', 'SIGILL', 'SIGFPE', 'SIGTRAP'])

function signalText(signal: NodeJS.Signals, heapMegabytes: number): string {
  if (signal === 'SIGKILL') return 'was killed by SIGKILL, probably because memory ran out'
  if (signal === 'SIGABRT') {
    return `aborted (SIGABRT), probably because its heap of ${heapMegabytes} MiB was full`
  }
  return crashes.has(signal) ? `crashed in native code (${signal})` : `was ended by ${signal}`
}
