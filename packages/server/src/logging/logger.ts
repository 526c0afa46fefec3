import { pino } from 'pino'

import { prettyLine } from './pretty-line.ts'
import { StderrLines } from './stderr-lines.ts'

/** Data of a log line: plain values that have a JSON form, or errors. */
export type LogFields = Readonly<Record<string, unknown>>

/** What the server writes its log to. A pino logger fits; so does an object of four functions. */
export interface Logger {
  debug(fields: LogFields, message: string): void
  info(fields: LogFields, message: string): void
  warn(fields: LogFields, message: string): void
  error(fields: LogFields, message: string): void
}

/** From which importance on lines are written. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** How lines are written: for people, for programs, or for whoever reads stderr: a terminal is a person. */
export type LogFormat = 'pretty' | 'json' | 'auto'

/** Options of {@link createStderrLogger}. */
export interface StderrLoggerOptions {
  /** Default: `info`. */
  level?: LogLevel | undefined
  /** Default: `auto`. */
  format?: LogFormat | undefined
  /** Where lines go instead of stderr, one by one as they are written. */
  output?: { write(line: string): unknown; readonly isTTY?: boolean } | undefined
}

let lines: StderrLines | undefined

/**
 * Lines on stderr, one for each event, as JSON or readable: stdout belongs to the program the server runs in. A reader who stops reading
 * holds up nothing: lines wait in memory, up to 8 MiB, and are then dropped and counted.
 */
export function createStderrLogger(options: StderrLoggerOptions = {}): Logger {
  const { level = 'info', format = 'auto', output } = options
  const { isTTY = false } = output ?? process.stderr
  const destination = output ?? (lines ??= new StderrLines())
  const isPretty = format === 'pretty' || (format === 'auto' && isTTY)
  const pretty = { write: (line: string): void => void destination.write(prettyLine(line)) }
  return pino(
    { level, base: null },
    isPretty ? pretty : { write: (line) => void destination.write(line) },
  )
}

/** Writes nothing. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}
