import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { homedir } from 'node:os'
import path from 'node:path'
import type { Interface } from 'node:readline/promises'
import { WriteStream } from 'node:tty'

import { withCommands, withoutCommands } from './github-commands.ts'
import { HiddenSecrets, type Redaction } from './redaction.ts'
import { withoutControls } from './terminal-controls.ts'

/** A stream that a command writes to. A terminal has `isTTY` and its width. */
export interface OutputStream extends NodeJS.WritableStream {
  readonly isTTY?: boolean
  readonly columns?: number
}

/** A stream that a command reads from. A terminal has `isTTY`. */
export interface InputStream extends NodeJS.ReadableStream {
  readonly isTTY?: boolean
}

/**
 * The streams, variables and folder of a command. Each defaults to that of the process.
 *
 * User modules that a command loads into this process still use `process.env`, `process.cwd()` and the
 * streams of the process.
 */
export interface CommandContext {
  /** Receives results. */
  readonly stdout?: OutputStream
  /** Receives progress, warnings and errors. */
  readonly stderr?: OutputStream
  /** Provides answers of the user, and the content of files named `-`. */
  readonly stdin?: InputStream
  /** All variables that the command reads and passes to processes. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Base of relative paths, and working folder of processes. */
  readonly cwd?: string
  /**
   * Ends the command when aborted, as Ctrl-C does; a server or a worker first lets its rollouts finish.
   * With it the command does not handle the signals of the process, and `main` resolves when the server or
   * the worker has ended.
   */
  readonly signal?: AbortSignal
  /**
   * Where the command runs entrypoints and graders. `process`: in child processes, so that they cannot harm this one.
   * `here`: in this process, which is faster; for programs that call `main` with user code that they trust, such as
   * tests. Workers of `--workers` are processes either way. Default: `process`.
   */
  readonly userCode?: 'process' | 'here'
}

interface KnownContext {
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  readonly stdin: InputStream
  readonly env: NodeJS.ProcessEnv
  /** Undefined: the folder of the process. */
  readonly cwd: string | undefined
  readonly signal: AbortSignal | undefined
  readonly userCode: 'process' | 'here'
  /** Variables that the command set in this process, with their earlier values. */
  readonly added: Map<string, string | undefined>
  readonly secrets: HiddenSecrets
}

const storage = new AsyncLocalStorage<KnownContext>()

/** That of the process. Its streams are opened when they are needed. */
const ofProcess: KnownContext = {
  get stdout() {
    return withoutCommands(process.stdout, ofProcess.env)
  },
  get stderr() {
    return withoutCommands(process.stderr, ofProcess.env)
  },
  get stdin() {
    return process.stdin
  },
  get env() {
    return process.env // oxlint-disable-line node/no-process-env
  },
  cwd: undefined,
  signal: undefined,
  userCode: 'process',
  added: new Map(),
  secrets: new HiddenSecrets(),
}

function current(): KnownContext {
  return storage.getStore() ?? ofProcess
}

/** Runs a command in a context. Resolves with its exit code, or undefined when it continues to serve. */
export async function runWithin(
  context: CommandContext,
  command: () => Promise<number | undefined>,
): Promise<number | undefined> {
  const { stdout, stderr, stdin, env, cwd, signal, userCode = 'process' } = context
  const variables = env === undefined ? ofProcess.env : definedIn(env)
  const known: KnownContext = {
    get stdout() {
      return withoutCommands(stdout ?? process.stdout, variables)
    },
    get stderr() {
      return withoutCommands(stderr ?? process.stderr, variables)
    },
    get stdin() {
      return stdin ?? process.stdin
    },
    env: variables,
    cwd: cwd === undefined ? undefined : path.resolve(cwd),
    signal,
    userCode,
    added: new Map(),
    secrets: new HiddenSecrets(),
  }
  const exitCode = await storage.run(known, command)
  if (exitCode !== undefined) takeBack(known.added)
  return exitCode
}

/** Binds a function to the context of the command, e.g. for a signal handler. */
export const inCommandContext: typeof AsyncLocalStorage.bind = (callback) =>
  AsyncLocalStorage.bind(callback)

function definedIn(env: Readonly<Record<string, string | undefined>>): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined))
}

/**
 * Writes text to stdout, without the secrets of the command and without what controls a terminal. Returns false when the caller should wait for
 * `drain`.
 */
export function printOut(text: string): boolean {
  return current().stdout.write(withoutControls(redaction().text(text)))
}

/** Writes data as JSON to stdout, without the secrets in its strings. What controls a terminal is escaped. */
export function printJson(data: unknown): void {
  const json = JSON.stringify(redaction().data(data), null, 2)
  current().stdout.write(withoutControls(`${json}\n`))
}

/** Writes to stderr, without the secrets of the command and without what controls a terminal. */
export function printError(text: string): boolean {
  return current().stderr.write(withoutControls(redaction().text(text)))
}

/** Removes the secrets that the command knows so far. */
export function redaction(): Redaction {
  return current().secrets.redaction
}

/**
 * Removes secrets from everything that the command prints and stores from now on, and warns about those
 * that it cannot remove.
 *
 * @param secrets - by their names, for warnings
 */
export function hideSecrets(secrets: Readonly<Record<string, string | undefined>>): void {
  for (const sentence of current().secrets.add(secrets)) printError(`warning: ${sentence}\n`)
}

/** Removes keys from everything that the command prints and stores, except those that are as short as a word. */
export function hideKeys(...keys: readonly (string | undefined)[]): void {
  for (const key of keys) current().secrets.add({ '': key })
}

/** Protects data from redaction by secrets that are added later. */
export function protectData(rows: readonly unknown[]): void {
  current().secrets.protect(rows)
}

/**
 * Calls a function with stdout for data, whose bytes another program reads. The runner of GitHub Actions gets them unchanged too, and
 * is told on stderr to execute no commands meanwhile.
 */
export async function withDataOutput(
  write: (output: OutputStream) => Promise<void>,
): Promise<void> {
  const { stdout, stderr, env } = current()
  if (!env['GITHUB_ACTIONS']) return write(stdout)
  const token = randomUUID()
  const commands = withCommands(stderr)
  commands.write(`::stop-commands::${token}\n`)
  try {
    await write(withCommands(stdout))
  } finally {
    commands.write(`\n::${token}::\n`)
  }
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

/** The variables, without those of a `.env` file. */
export function environment(): NodeJS.ProcessEnv {
  return current().env
}

/** The home folder of the user. */
export function homeFolder(): string {
  const name = process.platform === 'win32' ? 'USERPROFILE' : 'HOME'
  return environment()[name] || homedir()
}

/** Sets variables in this process, for user code. They are restored when the command has ended. */
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

/** Folder in which the command was called; absolute. */
export function workingFolder(): string {
  return current().cwd ?? process.cwd()
}

/** The absolute path of a name from the command line. */
export function resolvePath(name: string): string {
  return path.resolve(workingFolder(), name)
}

/** A place for messages: relative to the folder of the command where it lies in it. */
export function fromWorkingFolder(place: string): string {
  const relative = path.relative(workingFolder(), place)
  return relative.startsWith('..') ? place : relative || '.'
}

/**
 * A file name from the command line, for functions that repeat it in messages: as it was written where the
 * folder of the command is that of the process.
 */
export function displayPath(name: string): string {
  const { cwd } = current()
  return name === '' || cwd === undefined || cwd === process.cwd() ? name : resolvePath(name)
}

/** Ends the command instead of the signals of the process; undefined: those end it. */
export function endSignal(): AbortSignal | undefined {
  return current().signal
}

/** Whether entrypoints and graders run in the process of the command. */
export function runsUserCodeHere(): boolean {
  return current().userCode === 'here'
}

/** Whether a user can answer questions, which are printed to stderr. */
export function isInteractive(): boolean {
  return standardInput().isTTY === true && standardError().isTTY === true
}

/** Asks a question that Ctrl-C or `signal` ends with an error. Resolves with undefined when the input ends, as with Ctrl-D. */
export async function answerTo(
  lines: Interface,
  question: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { promise: ended, resolve } = Promise.withResolvers<undefined>()
  lines.once('close', () => resolve(undefined))
  try {
    return await Promise.race([lines.question(question, { signal }), ended])
  } catch (error) {
    signal.throwIfAborted()
    throw error
  }
}

/** Whether an output shows colours, by NO_COLOR, FORCE_COLOR and its kind of terminal. */
export function showsColours(output: OutputStream): boolean {
  const env = environment()
  if (env['FORCE_COLOR'] === undefined && output.isTTY !== true) return false
  return WriteStream.prototype.getColorDepth(env) > 2
}
