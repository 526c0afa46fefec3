import { writeSync } from 'node:fs'

import { codePlace } from '../containment/error-place.ts'

/** The pipe for exit reports: a process that is ending cannot flush its message channel. */
export const exitReportPipe = 4

/** What a worker process reports about its exit. */
export type ExitReport =
  /** `place` is where `process.exit` was called, or empty. */
  | { readonly kind: 'exit'; readonly code: number; readonly place: string }
  | { readonly kind: 'uncaught'; readonly message: string; readonly place: string }
  | { readonly kind: 'abort'; readonly place: string }
  | { readonly kind: 'memory'; readonly megabytes: number }
  /** Sent before the exit: the process uses so much memory that its heap may fill up. */
  | { readonly kind: 'large' }

/** Writes synchronously. The first report counts. */
export function reportExit(report: ExitReport): void {
  try {
    writeSync(exitReportPipe, `${JSON.stringify(report)}\n`)
  } catch {
    // The parent has exited, so no process reads the report.
  }
}

/** A line of the pipe as a report; undefined when user code has written it. */
export function parseExitReport(line: string): ExitReport | undefined {
  try {
    const report = JSON.parse(line) as ExitReport | null
    return report !== null && typeof report === 'object' && 'kind' in report ? report : undefined
  } catch {
    return undefined
  }
}

/** Makes the process report why it exits, as far as JavaScript can know. */
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

/** Memory of this process; undefined when it can no longer open files. */
export function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss()
  } catch {
    return undefined
  }
}
