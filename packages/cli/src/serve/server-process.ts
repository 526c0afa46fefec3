import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream, type WriteStream } from 'node:fs'
import type { Readable, Transform } from 'node:stream'
import { finished } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'
import type { RowCheck } from '@osmosis/eval'
import { failedWrite } from '@osmosis/protocol/files'
import { moduleIn, type WorkerEntrypoint } from '@osmosis/server/child'

import { observeRollouts, type ObservedRollouts } from '../child/observed-rollouts.ts'
import type { EntrypointFacts } from '../child/served-workflow.ts'
import { runUserCode } from '../child/user-code.ts'
import { hideKeys, redaction } from '../command/command-context.ts'
import { printMessage } from '../command/terminal-text.ts'
import { invalidEntrypoint } from '../command/wrong-use.ts'
import type { ServeFlags } from './serve.ts'

/** How long a server may take to end. Milliseconds. */
const endLimitMs = 5_000
/** How long a server may take to cancel its rollouts after an interrupt: it may be blocked. Milliseconds. */
const interruptLimitMs = 15_000
/** The last lines of output that errors quote. */
const quotedLines = 20
/** Characters of a quoted line. */
const longestLine = 1000
/** Characters that are buffered until the end of their line. The log may split longer lines. */
const longestHeld = 16_000_000

/** What the server's process serves, and how. */
export interface ServerOrder extends Pick<ServeFlags, 'workers' | 'concurrency' | 'set' | 'redis'> {
  /** The argument of `osmosis serve`. */
  readonly entrypoint: string
  /** Whether its process observes what user code does in the rollouts. Default: false. */
  readonly isObserved?: boolean
}

/** The question of what was observed; all others are rows to check. */
const whatWasObserved = 'observed'

/** What the server's process says when it listens. */
interface ListeningServerFacts extends EntrypointFacts {
  readonly url: string
  readonly apiKey: string
}

/** Serves an entrypoint for the command that started this process. */
export async function loadServer({
  entrypoint,
  isObserved = false,
  ...flags
}: ServerOrder): Promise<WorkerEntrypoint> {
  const observer = isObserved ? observeRollouts() : undefined
  // The command that starts the process does not load it.
  const { serveCommand } = await import('./serve-command.ts')
  const apiKey = randomBytes(32).toString('base64url')
  const settings: ServeFlags = {
    ...flags,
    apiKey,
    auth: true,
    host: '127.0.0.1',
    port: 0,
    privateHosts: true,
    logLevel: 'info',
    // They may contain secrets of the evaluation that its server cannot recognise.
    trajectories: false,
  }
  const { url, facts, check, close } = await serveCommand(entrypoint, settings, (loaded) =>
    observer === undefined || loaded.kind === 'agent-loop'
      ? loaded
      : { ...loaded, entrypoint: observer.watched(loaded.entrypoint) },
  )
  return {
    facts: { url, apiKey, ...facts } satisfies ListeningServerFacts,
    answer: async (question) =>
      question === whatWasObserved ? observer?.end() : check(question as Parameters<RowCheck>[0]),
    close: async () => {
      observer?.end()
      await close()
    },
    // The server logs it, fails its rollouts and ends.
    onStrayError: () => {},
  }
}

/** The server to start, and its environment. */
export interface ServerProcessOptions extends ServerOrder {
  /** Working folder of the process. */
  readonly folder: string
  /** Its environment. */
  readonly env: NodeJS.ProcessEnv
  /** Gets each line of its output, without secrets. */
  readonly onLine?: (line: string) => void
}

/** A rollout server that runs as a process of its own. */
export interface ServerProcess extends AsyncDisposable, Omit<ListeningServerFacts, 'hasSchema'> {
  /** Checks rows by the schemas of the entrypoint; undefined without a schema. */
  readonly rowCheck: RowCheck | undefined
  /** Appends the output of the process to a file, including the output so far. */
  readonly logTo: (file: string) => void
  /** What its process has observed, when that was ordered; ends the observation. */
  readonly observed: () => Promise<ObservedRollouts | undefined>
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
 * @throws OsmosisError with code `invalid_entrypoint` and the last output of the process, when it cannot serve it;
 * the reason of `signal` when aborted
 */
export async function startServerProcess(
  { folder, env, onLine, ...order }: ServerProcessOptions,
  signal: AbortSignal,
): Promise<ServerProcess> {
  signal.throwIfAborted()
  const child = runUserCode({
    module: moduleIn(import.meta.dirname, 'server-child'),
    loader: async () => loadServer,
    order: order satisfies ServerOrder,
    name: 'the rollout server',
    cwd: folder,
    env,
  })
  const output = collectOutput(child.output, onLine)
  const died = new AbortController()
  const force = (): unknown => setTimeout(() => child.kill(), interruptLimitMs).unref()
  signal.addEventListener('abort', force)
  const ended = endOfServer()
  async function endOfServer(): Promise<void> {
    const { how } = await child.ended
    await output.complete
    signal.removeEventListener('abort', force)
    const all =
      output.logFile() === undefined ? '' : `\nThe whole output is in ${output.logFile()}.`
    const message = `The rollout server ${how}. Its last output:\n${output.lastLines()}${all}`
    died.abort(new OsmosisError('protocol_error', message))
  }
  let closing: Promise<void> | undefined
  const close = (): Promise<void> => (closing ??= child.close(endLimitMs).then(() => ended))

  try {
    const { facts } = await untilAborted(signal, () => child.ready)
    const { hasSchema, ...served } = facts as ListeningServerFacts
    hideKeys(served.apiKey)
    return {
      ...served,
      rowCheck: hasSchema
        ? async (rows) => (await child.ask(rows)) as Awaited<ReturnType<RowCheck>>
        : undefined,
      logTo: output.logTo,
      observed: async () => (await child.ask(whatWasObserved)) as ObservedRollouts | undefined,
      died: died.signal,
      explain: (failure) => explain(failure, died.signal, ended),
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    if (signal.aborted) throw error
    const message = `The rollout server could not start. ${errorMessage(error)}\n${output.lastLines()}`
    throw invalidEntrypoint(message.trimEnd(), error)
  }
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

/** The output of a process. */
interface CollectedOutput {
  lastLines(): string
  readonly logTo: (file: string) => void
  /** Undefined while the output is only in memory. */
  logFile(): string | undefined
  /** Settles when the output is complete. */
  readonly complete: Promise<unknown>
}

/** Collects the output without its secrets, in memory until there is a log file. */
function collectOutput(
  streams: readonly Readable[],
  onLine: ServerProcessOptions['onLine'],
): CollectedOutput {
  let log: WriteStream | undefined
  let logFile: string | undefined
  const held: string[] = []
  const lines: string[] = []
  const written = streams.map(async (stream) => {
    const text = redaction().stream()
    const whole = new WholeLines()
    const keep = (piece: string): void => {
      if (piece === '') return
      const printed = piece.split('\n').filter((line) => line !== '')
      if (onLine !== undefined) for (const line of printed) onLine(line)
      lines.push(...printed.slice(-quotedLines).map(shortened))
      lines.splice(0, lines.length - quotedLines)
      if (log === undefined) held.push(piece)
      // The process waits when it prints faster than the disk writes.
      else if (!log.destroyed && !log.write(piece)) waitForLog(log, text)
    }
    text.on('data', (piece: string) => keep(whole.push(piece)))
    stream.setEncoding('utf8').pipe(text)
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
  printMessage(`warning: ${message}`)
}

function waitForLog(log: WriteStream, text: Transform): void {
  text.pause()
  const resume = (): void => {
    log.off('drain', resume).off('close', resume)
    text.resume()
  }
  log.on('drain', resume).on('close', resume)
}
