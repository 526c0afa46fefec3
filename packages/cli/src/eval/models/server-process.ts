import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream, existsSync, type WriteStream } from 'node:fs'
import path from 'node:path'
import type { Transform } from 'node:stream'
import { finished } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import type { MetadataCheck } from '@osmosis/eval'
import { stepRewardsDropped } from '@osmosis/server/protocols'

import { fromHere, hideKey, printError, redaction } from '../../command/surroundings.ts'
import {
  metadataCheckBy,
  isListeningMessage,
  type EntrypointKind,
  type ListeningMessage,
} from '../../serve/server-channel.ts'

/** How long a server may take to end after it was asked to. */
const patienceMs = 5_000
const remembered = 20
/** Characters of a line that are remembered: some print whole documents as one. */
const longestLine = 1000
/** Characters of a line that are held until it ends. The log may tear longer ones. */
const longestHeld = 16_000_000

/** What to start, and with what environment. */
export interface ServerProcessOptions {
  /** As `osmosis serve` takes it. */
  readonly entrypoint: string
  /** Where it listens. Default: any free port. */
  readonly port?: number
  /** Whether what it prints is also printed here, on stderr. Default: false. */
  readonly isEchoed?: boolean
  /** Folder for the traces of an agent loop. Default: none are kept. */
  readonly traces?: string
  /** Worker processes for user code. Default: the server's own process runs it. */
  readonly workers?: number | 'auto'
  /** What it is told of a queue. Default: it runs the rollouts itself. */
  readonly queueArgs?: readonly string[]
  /** Where the process runs: relative paths of the user's code mean this folder. */
  readonly folder: string
  /** Its environment, but for the key of the server. */
  readonly env: NodeJS.ProcessEnv
}

/** A rollout server that runs as a process of its own. */
export interface ServerProcess extends AsyncDisposable {
  readonly url: string
  readonly apiKey: string
  readonly kind: EntrypointKind
  /** Judges rows by the schema that the workflow declares; undefined when it declares none. */
  readonly metadataCheck: MetadataCheck | undefined
  /** Whether it says itself how many of its rollouts may run at once. */
  readonly isConfigured: boolean
  /** Whether anything rewards its rollouts. */
  readonly hasGrader: boolean
  /** How many attempts at a row it has to grade together; null when it grades each alone. */
  readonly groupMinSize: number | null
  /** Writes everything that the process prints to the end of a file; what it has printed so far, too. */
  readonly logTo: (file: string) => void
  /** Whether a log line of it had {@link stepRewardsDropped}; complete when the server is closed. */
  readonly hasDroppedStepRewards: () => boolean
  /** Aborted, with the reason, when the process ends. */
  readonly died: AbortSignal
  /**
   * The better reason when `failure` is a connection that broke: that the process has ended, if
   * it has. Otherwise `failure`.
   */
  explain(failure: unknown): Promise<unknown>
  /** Ends the process and everything it started. Idempotent. */
  close(): Promise<void>
}

/**
 * Serves an entrypoint in a process of its own and resolves when it listens.
 *
 * @throws OsmosisError with code `invalid_entrypoint` and what the process printed, when it ends
 * before; the reason of `signal` when aborted
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
      // A group of its own: Ctrl-C reaches the evaluation alone, which then ends the server.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    },
  )
  const output = collectOutput(child, options)
  const died = new AbortController()
  const ended = endOf(child, output).then((how) => {
    const all = output.logFile() === undefined ? '' : `\nAll of it is in ${output.logFile()}.`
    const lastWords = `The rollout server ${how}. It printed last:\n${output.lastLines()}${all}`
    died.abort(new OsmosisError('protocol_error', lastWords))
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
      metadataCheck: hasSchema ? metadataCheckBy(child) : undefined,
      isConfigured: facts.isConfigured,
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
  const { entrypoint, port = 0, traces, workers, queueArgs = [] } = options
  const log = traces === undefined ? [] : ['--log', fromHere(traces)]
  const processes = workers === undefined ? [] : ['--workers', String(workers)]
  // Conversations may hold secrets of the evaluation, which its server does not know for such.
  const given = [...log, ...processes, ...queueArgs]
  return ['serve', entrypoint, '--port', String(port), '--no-trajectories', ...given]
}

async function explain(
  failure: unknown,
  died: AbortSignal,
  ended: Promise<unknown>,
): Promise<unknown> {
  const answered = !isOsmosisError(failure) || failure.status !== undefined
  if (answered || failure.code !== 'protocol_error') return failure
  // The connection breaks a moment before the end of the process is known.
  await Promise.race([ended, sleep(1_000, undefined, { ref: false })])
  return died.aborted ? died.reason : failure
}

/** The `osmosis` command next to this file, as source or as built code. */
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

/** What a process prints. */
interface CollectedOutput {
  lastLines(): string
  readonly logTo: (file: string) => void
  readonly hasDroppedStepRewards: () => boolean
  /** Undefined as long as the output is only held. */
  logFile(): string | undefined
  /** Settles when all of it has come. */
  readonly complete: Promise<unknown>
}

/** The output without the secrets in it. Until there is a file for it, it is held. */
function collectOutput(
  child: ChildProcess,
  { isEchoed = false }: Pick<ServerProcessOptions, 'isEchoed'>,
): CollectedOutput {
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
      if (isEchoed) printError(piece)
      hasDropped ||= piece.includes(stepRewardsDropped)
      const printed = piece.split('\n').filter((line) => line !== '')
      lines.push(...printed.slice(-remembered).map(shortened))
      lines.splice(0, lines.length - remembered)
      if (log === undefined) held.push(piece)
      // Whoever prints faster than a disk writes has to wait.
      else if (!log.write(piece)) waitForLog(log, text)
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
    // What is left to write; a log that cannot be written has been closed already.
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
      // A log that cannot be written is no reason to stop: a full disk says so elsewhere.
      log.on('error', () => {})
      log.write(held.splice(0).join(''))
    },
  }
}

/** Holds what a stream prints until the end of a line: a line of the other stream would tear it in the log. */
class WholeLines {
  #held: string[] = []
  #length = 0

  /** What has come and was not taken yet, up to the end of its last line. */
  push(piece: string): string {
    const lineEnd = piece.lastIndexOf('\n') + 1
    const isHeld = lineEnd === 0 && this.#length + piece.length <= longestHeld
    const whole = isHeld ? '' : this.take() + piece.slice(0, lineEnd || piece.length)
    const rest = isHeld ? piece : piece.slice(lineEnd || piece.length)
    this.#held.push(rest)
    this.#length += rest.length
    return whole
  }

  /** All that has come and was not taken yet. */
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

function waitForLog(log: WriteStream, text: Transform): void {
  text.pause()
  const goOn = (): void => {
    log.off('drain', goOn).off('close', goOn)
    text.resume()
  }
  log.on('drain', goOn).on('close', goOn)
}

/** How the process has ended; resolves when all that it printed is there. */
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
  const force = setTimeout(() => signalGroup(child, 'SIGKILL'), patienceMs)
  await ended
  clearTimeout(force)
}

/** Reaches what the user's code started as well. */
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // It ended in this moment.
  }
}
