import { fstatSync, write, writeSync } from 'node:fs'
import { styleText } from 'node:util'

import { pino } from 'pino'

const stderr = 2
/** Bytes that a pipe accepts at once on Linux; smaller pipes accept fewer. */
const pipeBytes = 64 * 1024
/** Characters that wait for a slow reader. */
const maxWaiting = 8 * 1024 * 1024
/** When a write to a full pipe is retried. Milliseconds. */
const retryMs = 5
/** A write that takes longer than this waits for a reader. Milliseconds. */
const stuckMs = 1000
/** How long an ending process waits for a write in progress. Milliseconds. */
const lastWaitMs = 50

/**
 * Lines on stderr. Files and terminals are written synchronously. The reader of a pipe may stop reading, and a
 * synchronous write to a full pipe would then block the whole process. Lines for a pipe are therefore written
 * asynchronously, wait in memory if necessary, and are dropped and counted when too many wait.
 */
class StderrLines {
  readonly #isPipe: boolean
  #waiting: string[] = []
  #waitingLength = 0
  #dropped = 0
  /** What is being written, and since when. */
  #left = Buffer.alloc(0)
  #writingSince: number | undefined

  constructor() {
    this.#isPipe = isPipe()
    if (this.#isPipe) process.on('exit', () => this.#writeLast())
  }

  write(line: string): void {
    if (!this.#isPipe) {
      try {
        writeSync(stderr, line)
      } catch {
        // The disk is full, or the terminal was closed: a log line must not end the process.
      }
    } else if (this.#waitingLength + line.length > maxWaiting) {
      this.#dropped += 1
    } else {
      this.#waiting.push(line)
      this.#waitingLength += line.length
      if (this.#writingSince === undefined) this.#writeNext()
    }
  }

  #writeNext(): void {
    if (this.#left.length === 0) this.#left = Buffer.from(this.#taken())
    if (this.#left.length === 0) {
      this.#writingSince = undefined
      return
    }
    this.#writingSince = performance.now()
    write(stderr, this.#left, 0, Math.min(this.#left.length, pipeBytes), null, (error, written) => {
      if (isFull(error)) setTimeout(() => this.#writeNext(), retryMs).unref()
      // Any other error ends the log: it has no reader.
      if (error) return
      this.#left = this.#left.subarray(written)
      this.#writeNext()
    })
  }

  #taken(): string {
    const text = this.#waiting.join('')
    this.#waiting = []
    this.#waitingLength = 0
    if (this.#dropped === 0) return text
    const msg = `${this.#dropped} log lines were dropped: stderr was not read`
    this.#dropped = 0
    return `${text}${JSON.stringify({ level: 40, time: Date.now(), msg })}\n`
  }

  #writeLast(): void {
    let started = 0
    if (this.#writingSince !== undefined) {
      if (performance.now() - this.#writingSince > stuckMs) return
      // A thread writes while this one sleeps; its result cannot be received any more.
      sleep(lastWaitMs)
      started = pipeBytes
    }
    let rest = Buffer.concat([this.#left.subarray(started), Buffer.from(this.#taken())])
    for (let waited = 0; rest.length > 0 && waited < stuckMs;) {
      const written = writtenNow(rest)
      rest = rest.subarray(written)
      waited = written > 0 ? 0 : waited + retryMs
    }
  }
}

/** Writes to the pipe and returns the number of bytes; if it is full, waits a little and returns 0. */
function writtenNow(bytes: Buffer): number {
  try {
    return writeSync(stderr, bytes)
  } catch (error) {
    // After any other error nothing can be written.
    if (!isFull(error as NodeJS.ErrnoException)) return bytes.length
    sleep(retryMs)
    return 0
  }
}

/** Whether a non-blocking pipe, such as Node.js gives its children, is full. */
function isFull(error: NodeJS.ErrnoException | null): boolean {
  return error?.code === 'EAGAIN'
}

function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

function isPipe(): boolean {
  try {
    const found = fstatSync(stderr)
    return found.isFIFO() || found.isSocket()
  } catch {
    return false
  }
}

const levels: Readonly<Record<number, readonly [string, Parameters<typeof styleText>[0]]>> = {
  20: ['DEBUG', 'gray'],
  30: ['INFO', 'green'],
  40: ['WARN', 'yellow'],
  50: ['ERROR', 'red'],
}

/**
 * A readable log line: time, level, the rollout, the message, then the other fields. The
 * stack of an error follows, indented. Coloured for a terminal, unless `NO_COLOR` is set.
 *
 * @param json - the line in JSON; anything else is returned unchanged
 */
function prettyLine(json: string): string {
  const fields = fieldsOf(json)
  if (fields === undefined) return json
  const { level, time, msg, rollout_id: rolloutId, error, ...others } = fields
  const [name, colour] = levels[Number(level)] ?? ['INFO', 'green']
  const rollout = rolloutId === undefined ? [] : [styled('cyan', oneLine(rolloutId))]
  const rest = Object.entries(others).map(([key, value]) =>
    styled('gray', `${key}=${oneLine(value)}`),
  )
  const parts = [clock(time), styled(colour, name.padEnd(5)), ...rollout, oneLine(msg), ...rest]
  return `${parts.join(' ')}\n${error === undefined ? '' : errorLines(error)}`
}

function fieldsOf(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}

/** Time of day, in the zone of the process. */
function clock(time: unknown): string {
  const date = new Date(Number(time))
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000)
  return styled('gray', Number.isNaN(local.getTime()) ? '' : local.toISOString().slice(11, 23))
}

/** Escapes control characters: foreign text must not start a line, or move the cursor. */
function oneLine(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001F\u007F-\u009F]/g, (character) =>
    character === '\n' ? '⏎' : '�',
  )
}

function errorLines(error: unknown): string {
  const { stack, message, cause } = Object(error) as Record<string, unknown>
  const text = typeof stack === 'string' ? stack : typeof message === 'string' ? message : error
  const lines = (typeof text === 'string' ? text : (JSON.stringify(text) ?? '')).split('\n')
  const own = lines.map((line) => `    ${styled('gray', oneLine(line))}\n`).join('')
  return cause === undefined
    ? own
    : `${own}    ${styled('gray', 'caused by')}\n${errorLines(cause)}`
}

function styled(format: Parameters<typeof styleText>[0], text: string): string {
  return styleText(format, text, { stream: process.stderr })
}

/** Data of a log line: plain values that have a JSON form, or errors. */
export type LogFields = Readonly<Record<string, unknown>>

/** Where the server writes its log. A pino logger fits, and so does an object of four functions. */
export interface Logger {
  debug(fields: LogFields, message: string): void
  info(fields: LogFields, message: string): void
  warn(fields: LogFields, message: string): void
  error(fields: LogFields, message: string): void
}

/** The lowest level that is written. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** `pretty` is human-readable, `json` machine-readable; `auto` is pretty on a terminal. */
export type LogFormat = 'pretty' | 'json' | 'auto'

/** Options of {@link createStderrLogger}. */
export interface StderrLoggerOptions {
  /** Default: `info`. */
  level?: LogLevel | undefined
  /** Default: `auto`. */
  format?: LogFormat | undefined
  /** Where lines go instead of stderr, one per call. */
  output?: { write(line: string): unknown; readonly isTTY?: boolean } | undefined
}

let lines: StderrLines | undefined

/**
 * Writes one line for each event to stderr, as JSON or human-readable; stdout belongs to the program that runs the
 * server. A reader that stops reading blocks nothing: lines wait in memory, up to 8 MiB, and are then dropped and
 * counted.
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
