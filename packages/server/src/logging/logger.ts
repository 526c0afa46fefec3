import { pino } from 'pino'

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

let lines: StderrLines | undefined

/**
 * JSON lines on stderr: stdout belongs to the program the server runs in. A reader who stops reading
 * holds up nothing: lines wait in memory, up to 8 MiB, and are then dropped and counted.
 */
export function createStderrLogger(level: LogLevel = 'info'): Logger {
  return pino({ level, base: null }, (lines ??= new StderrLines()))
}

/** Writes nothing. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}
