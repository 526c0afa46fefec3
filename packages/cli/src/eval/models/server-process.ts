import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream, existsSync, type WriteStream } from 'node:fs'
import path from 'node:path'
import type { Transform } from 'node:stream'
import { finished } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import type { RowCheck } from '@osmosis/eval'
import { failedWrite } from '@osmosis/protocol/files'
import { stepRewardsDropped } from '@osmosis/server/protocols'

import { resolvePath, hideKey, printError, redaction } from '../../command/command-context.ts'
import {
  rowCheckBy,
  isListeningMessage,
  type EntrypointKind,
  type ListeningMessage,
} from '../../child/server-channel.ts'

/** How long a server may take to end after SIGTERM. Milliseconds. */
const endLimitMs = 5_000
/** How long a server may take to cancel its rollouts after an interrupt: it may be blocked. Milliseconds. */
const interruptLimitMs = 15_000
/** The last lines of output that errors quote. */
const quotedLines = 20
/** Characters of a quoted line. */
const longestLine = 1000
/** Characters that are buffered until the end of their line. The log may split longer lines. */
const longestHeld = 16_000_000

/** The server to start, and its environment. */
export interface ServerProcessOptions {
  /** The argument of `osmosis serve`. */
  readonly entrypoint: string
  /** Folder for the traces of an agent loop. Default: no traces are written. */
  readonly traces?: string
  /** Worker processes for user code. Default: the server's own process runs it. */
  readonly workers?: number | 'auto'
  /** Maximum concurrent rollouts of a workflow whose config sets no limit. Default: the server's. */
  readonly concurrency?: number
  /** Fields of the workflow's config that have other values. Default: none. */
  readonly set?: Readonly<Record<string, unknown>>
  /** URL of the Redis of its queue. Default: it runs the rollouts itself. */
  readonly redis?: string
  /** Working folder of the process. */
  readonly folder: string
  /** Its environment, without the key of the server. */
  readonly env: NodeJS.ProcessEnv
}

/** A rollout server that runs as a process of its own. */
export interface ServerProcess extends AsyncDisposable {
  readonly url: string
  readonly apiKey: string
  readonly kind: EntrypointKind
  /** Checks rows by the schemas of the entrypoint; undefined without a schema. */
  readonly rowCheck: RowCheck | undefined
  /** Whether its config sets the number of concurrent rollouts. */
  readonly isConfigured: boolean
  /** Whether its config limits the model calls of a rollout. */
  readonly limitsCalls: boolean
  /** Whether its rollouts get rewards. */
  readonly hasGrader: boolean
  /** Minimum number of attempts at a row that it grades together; null when it grades each alone. */
  readonly groupMinSize: number | null
  /** Appends the output of the process to a file, including the output so far. */
  readonly logTo: (file: string) => void
  /** Whether its log has {@link stepRewardsDropped}; final when the server is closed. */
  readonly hasDroppedStepRewards: () => boolean
  /** Aborted, with the reason, when the process ends. */
  readonly died: AbortSignal
  /**
   * The exit of the process, when `failure` is a connection that broke because of it. Otherwise `failure`.
   */
  explain(failure: unknown): Promise<unknown>
  /** Ends the process and its children. Idempotent. */
  close(): Promise<void>
}

/**
 * Serves an entrypoint in a child process, and resolves when it listens.
 *
 * @throws OsmosisError with code `invalid_entrypoint` and the last output of the process, when it exits
 * earlier; the reason of `signal` when aborted
 */
export async function startServerProcess(
  options: ServerProcessOptions,
  signal: AbortSignal,
): Promise<ServerProcess> {
  signal.throwIfAborted()
  const apiKey = randomBytes(32).toString('base64url')
  hideKey(apiKey)
  const child = spawn(
    process.execPath,
    [...process.execArgv, commandFile(), ...serveArgs(options)],
    {
      cwd: options.folder,
      env: { ...options.env, OSMOSIS_ROLLOUT_SERVER_API_KEY: apiKey },
      // In a process group of its own, so that Ctrl-C reaches the evaluation only, which ends the server.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    },
  )
  const output = collectOutput(child)
  const died = new AbortController()
  const force = (): void => {
    setTimeout(() => signalGroup(child, 'SIGKILL'), interruptLimitMs).unref()
  }
  signal.addEventListener('abort', force)
  const ended = endOf(child, output).then((how) => {
    signal.removeEventListener('abort', force)
    const all =
      output.logFile() === undefined ? '' : `\nThe whole output is in ${output.logFile()}.`
    const message = `The rollout server ${how}. Its last output:\n${output.lastLines()}${all}`
    died.abort(new OsmosisError('protocol_error', message))
    return how
  })
  let closing: Promise<void> | undefined
  const close = (): Promise<void> => (closing ??= end(child, ended))

  try {
    const { url, kind, hasSchema, ...facts } = await Promise.race([
      listening(child),
      ended.then((how): never => {
        throw new OsmosisError(
          'invalid_entrypoint',
          `The rollout server ${how} before it listened:\n${output.lastLines()}`,
        )
      }),
      aborted(signal),
    ])
    return {
      url,
      apiKey,
      kind,
      rowCheck: hasSchema ? rowCheckBy(child) : undefined,
      isConfigured: facts.isConfigured,
      limitsCalls: facts.limitsCalls,
      hasGrader: facts.hasGrader,
      groupMinSize: facts.groupMinSize,
      logTo: output.logTo,
      hasDroppedStepRewards: output.hasDroppedStepRewards,
      died: died.signal,
      explain: (failure) => explain(failure, died.signal, ended),
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

function serveArgs(options: ServerProcessOptions): string[] {
  const { entrypoint, traces, workers, concurrency, set = {}, redis } = options
  const log = traces === undefined ? [] : ['--log', resolvePath(traces)]
  const processes = workers === undefined ? [] : ['--workers', String(workers)]
  // No trajectories: they may contain secrets of the evaluation that its server cannot recognise.
  const slots = concurrency === undefined ? [] : ['--concurrency', String(concurrency)]
  const fields = Object.entries(set).flatMap(([field, value]) => [
    '--set',
    `${field}=${JSON.stringify(value)}`,
  ])
  const queue = redis === undefined ? [] : ['--redis', redis]
  const given = [...log, ...processes, ...slots, ...fields, ...queue]
  return ['serve', entrypoint, '--port', '0', '--no-trajectories', ...given]
}

async function explain(
  failure: unknown,
  died: AbortSignal,
  ended: Promise<unknown>,
): Promise<unknown> {
  const answered = !isOsmosisError(failure) || failure.status !== undefined
  if (answered || failure.code !== 'protocol_error') return failure
  // The connection breaks a moment before the exit of the process is reported.
  await Promise.race([ended, sleep(1_000, undefined, { ref: false })])
  return died.aborted ? died.reason : failure
}

/** The file of the `osmosis` command, as source or as built code. */
function commandFile(): string {
  const folder = path.resolve(import.meta.dirname, '../..')
  const source = path.join(folder, 'bin.ts')
  return existsSync(source) ? source : path.join(folder, 'bin.js')
}

function listening(child: ChildProcess): Promise<ListeningMessage> {
  return new Promise((resolve) => {
    child.on('message', (message) => {
      if (isListeningMessage(message)) resolve(message)
    })
  })
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
}

/** The output of a process. */
interface CollectedOutput {
  lastLines(): string
  readonly logTo: (file: string) => void
  readonly hasDroppedStepRewards: () => boolean
  /** Undefined while the output is only in memory. */
  logFile(): string | undefined
  /** Settles when the output is complete. */
  readonly complete: Promise<unknown>
}

/** Collects the output without its secrets, in memory until there is a log file. */
function collectOutput(child: ChildProcess): CollectedOutput {
  let log: WriteStream | undefined
  let logFile: string | undefined
  let hasDropped = false
  const held: string[] = []
  const lines: string[] = []
  const written = [child.stdout, child.stderr].map(async (stream) => {
    const text = redaction().stream()
    const whole = new WholeLines()
    const keep = (piece: string): void => {
      if (piece === '') return
      hasDropped ||= piece.includes(stepRewardsDropped)
      const printed = piece.split('\n').filter((line) => line !== '')
      lines.push(...printed.slice(-quotedLines).map(shortened))
      lines.splice(0, lines.length - quotedLines)
      if (log === undefined) held.push(piece)
      // The process waits when it prints faster than the disk writes.
      else if (!log.destroyed && !log.write(piece)) waitForLog(log, text)
    }
    text.on('data', (piece: string) => keep(whole.push(piece)))
    stream?.setEncoding('utf8').pipe(text)
    await finished(text)
    const rest = whole.take()
    if (rest !== '') keep(`${rest}\n`)
  })
  const complete = endOfLog()
  async function endOfLog(): Promise<void> {
    await Promise.allSettled(written)
    log?.end()
    // A log that cannot be written has been closed already.
    if (log?.closed === false) await Promise.allSettled([once(log, 'close')])
  }
  return {
    complete,
    lastLines: () => lines.join('\n'),
    hasDroppedStepRewards: () => hasDropped,
    logFile: () => logFile,
    logTo: (file) => {
      logFile = file
      log = createWriteStream(file, { flags: 'a', mode: 0o600 })
      // The run continues without a log.
      log.on('error', (cause) => void warnOfLog(file, cause))
      log.write(held.splice(0).join(''))
    },
  }
}

/** Buffers a stream until the end of a line, so that a line of the other stream does not split it in the log. */
class WholeLines {
  #held: string[] = []
  #length = 0

  /** Adds a piece, and returns the lines that are complete. */
  push(piece: string): string {
    const lineEnd = piece.lastIndexOf('\n') + 1
    const isHeld = lineEnd === 0 && this.#length + piece.length <= longestHeld
    const whole = isHeld ? '' : this.take() + piece.slice(0, lineEnd || piece.length)
    const rest = isHeld ? piece : piece.slice(lineEnd || piece.length)
    this.#held.push(rest)
    this.#length += rest.length
    return whole
  }

  /** Returns everything that is buffered. */
  take(): string {
    const text = this.#held.join('')
    this.#held = []
    this.#length = 0
    return text
  }
}

function shortened(line: string): string {
  return line.length <= longestLine ? line : `${line.slice(0, longestLine)}…`
}

async function warnOfLog(file: string, cause: Error): Promise<void> {
  const { message } = await failedWrite(file, cause, 'The log of the server ends here.')
  printError(`warning: ${message}\n`)
}

function waitForLog(log: WriteStream, text: Transform): void {
  text.pause()
  const resume = (): void => {
    log.off('drain', resume).off('close', resume)
    text.resume()
  }
  log.on('drain', resume).on('close', resume)
}

/** How the process has ended; resolves when its output is complete. */
function endOf(child: ChildProcess, { complete }: CollectedOutput): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`))
    child.once('close', (code, endSignal) => {
      const how = code === null ? `was ended by ${endSignal}` : `ended with code ${code}`
      resolve(complete.then(() => how))
    })
  })
}

async function end(child: ChildProcess, ended: Promise<string>): Promise<void> {
  signalGroup(child, 'SIGTERM')
  const force = setTimeout(() => signalGroup(child, 'SIGKILL'), endLimitMs)
  await ended
  clearTimeout(force)
}

/** Also ends the processes that user code started. */
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // It has ended in the meantime.
  }
}
