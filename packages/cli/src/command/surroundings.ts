import { AsyncLocalStorage } from 'node:async_hooks'
import { homedir } from 'node:os'
import path from 'node:path'
import { WriteStream } from 'node:tty'

import { HiddenSecrets, type Redaction } from './redaction.ts'

/** A stream that a command writes to. Of a terminal, it says so and how wide it is. */
export interface OutputStream extends NodeJS.WritableStream {
  readonly isTTY?: boolean
  readonly columns?: number
}

/** A stream that a command reads from. Of a terminal, it says so. */
export interface InputStream extends NodeJS.ReadableStream {
  readonly isTTY?: boolean
}

/**
 * What a command is called with; what is left out is that of the process.
 *
 * Modules of the user that a command loads into this process read `process.env` and `process.cwd()`, and
 * write to the streams of the process, whatever stands here.
 */
export interface CommandSurroundings {
  /** Where results go. */
  readonly stdout?: OutputStream
  /** Where progress, warnings and errors go. */
  readonly stderr?: OutputStream
  /** Where answers of a person come from, and files that are named `-`. */
  readonly stdin?: InputStream
  /** All variables that the command reads, and that processes are started with. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** What relative paths mean, and where processes are started. */
  readonly cwd?: string
  /**
   * Ends the command when it is aborted, as Ctrl-C does; a server or a worker lets its rollouts finish
   * first. With it the command leaves the signals of the process alone, and `main` resolves when the
   * server or the worker has ended.
   */
  readonly signal?: AbortSignal
}

interface KnownSurroundings {
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  readonly stdin: InputStream
  readonly env: NodeJS.ProcessEnv
  /** Undefined: wherever the process is. */
  readonly cwd: string | undefined
  readonly signal: AbortSignal | undefined
  /** Variables that the command gave this process, with what they were before. */
  readonly added: Map<string, string | undefined>
  readonly secrets: HiddenSecrets
}

const storage = new AsyncLocalStorage<KnownSurroundings>()

/** Those of the process. Its streams are opened when they are needed. */
const ofProcess: KnownSurroundings = {
  get stdout() {
    return process.stdout
  },
  get stderr() {
    return process.stderr
  },
  get stdin() {
    return process.stdin
  },
  get env() {
    return process.env // oxlint-disable-line node/no-process-env
  },
  cwd: undefined,
  signal: undefined,
  added: new Map(),
  secrets: new HiddenSecrets(),
}

function current(): KnownSurroundings {
  return storage.getStore() ?? ofProcess
}

/** Runs a command in surroundings. It resolves with its exit code, or with undefined when it goes on. */
export async function runWithin(
  surroundings: CommandSurroundings,
  command: () => Promise<number | undefined>,
): Promise<number | undefined> {
  const { stdout, stderr, stdin, env, cwd, signal } = surroundings
  const known: KnownSurroundings = {
    get stdout() {
      return stdout ?? process.stdout
    },
    get stderr() {
      return stderr ?? process.stderr
    },
    get stdin() {
      return stdin ?? process.stdin
    },
    env: env === undefined ? ofProcess.env : definedIn(env),
    cwd: cwd === undefined ? undefined : path.resolve(cwd),
    signal,
    added: new Map(),
    secrets: new HiddenSecrets(),
  }
  const exitCode = await storage.run(known, command)
  if (exitCode !== undefined) takeBack(known.added)
  return exitCode
}

/** The same function, in the surroundings of now wherever it is called, e.g. by a signal. */
export const withSurroundings: typeof AsyncLocalStorage.bind = (callback) =>
  AsyncLocalStorage.bind(callback)

function definedIn(env: Readonly<Record<string, string | undefined>>): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined))
}

/**
 * Writes text to where results go, without the secrets of the command. Returns false when it is better to
 * wait until that has drained.
 */
export function printOut(text: string): boolean {
  return current().stdout.write(redaction().text(text))
}

/** Writes data to where results go: secrets are taken out of its texts, and its keys stay. */
export function printJson(data: unknown): void {
  current().stdout.write(`${JSON.stringify(redaction().data(data), null, 2)}\n`)
}

/** Writes to where progress, warnings and errors go, without the secrets of the command. */
export function printError(text: string): boolean {
  return current().stderr.write(redaction().text(text))
}

/** Longest text of a message about an error of somebody else. Characters. */
const longestLine = 200

/** A text on one line, cut when it is long. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length > longestLine ? `${line.slice(0, longestLine)}…` : line
}

/** Takes the secrets that the command knows by now out of texts and data. */
export function redaction(): Redaction {
  return current().secrets.redaction
}

/**
 * Keeps secrets out of all that the command prints and stores from now on, and warns of those that it
 * cannot keep out.
 *
 * @param secrets - by the names that a person knows them by
 */
export function hideSecrets(secrets: Readonly<Record<string, string | undefined>>): void {
  for (const sentence of current().secrets.add(secrets)) printError(`warning: ${sentence}\n`)
}

/** Keeps a key out of all that the command prints and stores, where it is long enough to be told from a word. */
export function hideKey(key: string): void {
  current().secrets.add({ '': key })
}

/** Data that is stored as it is, whatever the secrets are that the command gets to know after this. */
export function protectData(rows: readonly unknown[]): void {
  current().secrets.protect(rows)
}

export function standardOutput(): OutputStream {
  return current().stdout
}

export function standardError(): OutputStream {
  return current().stderr
}

export function standardInput(): InputStream {
  return current().stdin
}

/** The variables, as they are: without those of a `.env` file. */
export function environment(): NodeJS.ProcessEnv {
  return current().env
}

/** The home folder of the user. */
export function homeFolder(): string {
  const name = process.platform === 'win32' ? 'USERPROFILE' : 'HOME'
  return environment()[name] || homedir()
}

/** Gives this process variables, for code of the user. They are taken back when the command has ended. */
export function addToProcess(variables: NodeJS.ProcessEnv): void {
  const { env } = ofProcess
  const { added } = current()
  for (const [name, value] of Object.entries(variables)) {
    if (value === undefined || env[name] === value) continue
    if (!added.has(name)) added.set(name, env[name])
    env[name] = value
  }
}

function takeBack(added: ReadonlyMap<string, string | undefined>): void {
  const { env } = ofProcess
  for (const [name, before] of added) {
    if (before === undefined) delete env[name]
    else env[name] = before
  }
}

/** Where the command was called; absolute. */
export function workingFolder(): string {
  return current().cwd ?? process.cwd()
}

/** The absolute path of what a person named. */
export function fromHere(name: string): string {
  return path.resolve(workingFolder(), name)
}

/**
 * A file that a person named, for functions that name it in what they say: in their words where the
 * process is in their folder.
 */
export function namedHere(name: string): string {
  const { cwd } = current()
  return name === '' || cwd === undefined || cwd === process.cwd() ? name : fromHere(name)
}

/** What ends the command instead of the signals of the process; undefined: those do. */
export function endSignal(): AbortSignal | undefined {
  return current().signal
}

/** Whether a person is there to answer: questions go to stderr. */
export function isInteractive(): boolean {
  return standardInput().isTTY === true && standardError().isTTY === true
}

/** Whether an output shows colours: by NO_COLOR and FORCE_COLOR, and as what terminal it is. */
export function showsColours(output: OutputStream): boolean {
  const env = environment()
  if (env['FORCE_COLOR'] === undefined && output.isTTY !== true) return false
  return WriteStream.prototype.getColorDepth(env) > 2
}
