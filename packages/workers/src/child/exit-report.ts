import { writeSync } from 'node:fs'

import { codePlace } from '@osmosis/runtime/containment'

/** The pipe for exit reports: a process that is ending cannot flush its message channel. */
export const exitReportPipe = 4

/** What a worker process says of its own end. */
export type ExitReport =
  /** `place` is where `process.exit` was called; empty when it was not. */
  | { readonly kind: 'exit'; readonly code: number; readonly place: string }
  | { readonly kind: 'uncaught'; readonly message: string; readonly place: string }
  | { readonly kind: 'abort'; readonly place: string }
  | { readonly kind: 'memory'; readonly megabytes: number }
  /** User code has broken this built-in. */
  | { readonly kind: 'broken'; readonly what: string }
  /** Not of its end: it takes so much memory that its heap may be about to be full. */
  | { readonly kind: 'large' }

// Kept: what user code makes of it must not keep a worker from saying so.
const { stringify } = JSON

/** Writes at once. The first words are the ones that count. */
export function reportExit(words: ExitReport): void {
  try {
    writeSync(exitReportPipe, `${stringify(words)}\n`)
  } catch {
    // The parent has ended: no process reads the report.
  }
}

/** What a line of the pipe says; undefined for what else may have been written there. */
export function parseExitReport(line: string): ExitReport | undefined {
  try {
    const words = JSON.parse(line) as ExitReport | null
    return words !== null && typeof words === 'object' && 'kind' in words ? words : undefined
  } catch {
    return undefined
  }
}

/** From now on the process says why it ends, as far as JavaScript gets to know. */
export function reportEveryExit(): void {
  let place = ''
  const { exit } = process // oxlint-disable-line typescript/unbound-method -- called on it below
  const exitWithPlace: typeof exit = (code) => {
    const call = { stack: '' }
    Error.captureStackTrace(call, exitWithPlace)
    place = codePlace(call)
    return exit.call(process, code)
  }
  process.exit = exitWithPlace
  const { abort } = process // oxlint-disable-line typescript/unbound-method -- called on it below
  const abortWithPlace: typeof abort = () => {
    const call = { stack: '' }
    Error.captureStackTrace(call, abortWithPlace)
    reportExit({ kind: 'abort', place: codePlace(call) })
    return abort.call(process)
  }
  process.abort = abortWithPlace
  process.on('exit', (code) => reportExit({ kind: 'exit', code, place }))
}

/** Memory of this process; undefined when it has no file left to read that from. */
export function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss()
  } catch {
    return undefined
  }
}
