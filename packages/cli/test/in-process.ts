import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Readable, Writable } from 'node:stream'

import { main } from '@osmosis/cli'
import { beforeAll, onTestFinished } from 'vitest'

import { temporaryFolder, testEnvironment, workspace, type Finished } from './osmosis.ts'

/** Where commands are called that no folder is named for; undefined: where this process is. */
let called: string | undefined

/** Lets the commands of a test file run where a user would call them: in the test workspace. */
export function inWorkspace(): void {
  beforeAll(() => {
    called = workspace
    return () => {
      called = undefined
    }
  })
}

/** Lets the commands of this test run in a folder from now on; undefined: where this process is. */
export function workIn(folder: string | undefined): void {
  const before = called
  called = folder
  onTestFinished(() => {
    called = before
  })
}

/** Where commands run entrypoints and graders. */
let userCode: 'process' | 'here' = 'here'

/**
 * Lets the commands of this test run entrypoints and graders in child processes, as they do for users: for what is about these
 * processes, their ends, streams and variables.
 */
export function useProcesses(): void {
  const before = userCode
  userCode = 'process'
  onTestFinished(() => {
    userCode = before
  })
}

/** The absolute path of a name that a command would be given now. */
export function here(name: string): string {
  return path.resolve(called ?? '', name)
}

/** A command that runs in this process. */
export interface StartedCommand {
  readonly finished: Promise<Finished>
  /** Resolves with the match as soon as what was printed on stdout and stderr matches. */
  printed(pattern: RegExp): Promise<RegExpExecArray>
  /** Ends it as Ctrl-C does, and resolves when it has ended. */
  end(): Promise<Finished>
}

/**
 * Starts the `osmosis` command in this process, for what is not about processes. It is ended with the test.
 *
 * @param env - added to the variables of this process
 * @param folder - where it is called. Default: that of `workIn` or `inWorkspace`, else where this process is
 */
export function start(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  folder = called,
): StartedCommand {
  const ending = new AbortController()
  const output = new WatchedOutput()
  const finished = main(args, {
    stdout: output.stream('stdout'),
    stderr: output.stream('stderr'),
    stdin: Readable.from([]),
    env: { ...testEnvironment, ...env },
    signal: ending.signal,
    userCode,
    ...(folder === undefined ? {} : { cwd: folder }),
  }).then((code) => ({ code: code ?? null, ...output.texts }))
  const end = async (): Promise<Finished> => {
    ending.abort()
    return finished
  }
  onTestFinished(async () => void (await end()))
  return { finished, end, printed: async (pattern) => output.match(pattern, finished) }
}

/**
 * Runs the `osmosis` command in this process, for what is not about processes.
 *
 * @param env - added to the variables of this process
 * @param folder - where it is called. Default: that of `workIn` or `inWorkspace`, else where this process is
 */
export async function run(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  folder = called,
): Promise<Finished> {
  const output = new WatchedOutput()
  const code = await main(args, {
    stdout: output.stream('stdout'),
    stderr: output.stream('stderr'),
    stdin: Readable.from([]),
    env: { ...testEnvironment, ...env },
    userCode,
    ...(folder === undefined ? {} : { cwd: folder }),
  })
  return { code: code ?? null, ...output.texts }
}

/** Collects what a command prints. */
class WatchedOutput {
  readonly texts = { stdout: '', stderr: '' }
  readonly #watchers = new Set<() => void>()

  stream(name: 'stdout' | 'stderr'): Writable {
    return new Writable({
      write: (text, _encoding, done) => {
        this.texts[name] += String(text)
        for (const watcher of this.#watchers) watcher()
        done()
      },
    })
  }

  async match(pattern: RegExp, ended: Promise<unknown>): Promise<RegExpExecArray> {
    const { promise, resolve } = Promise.withResolvers<RegExpExecArray>()
    const watcher = (): void => {
      const match = pattern.exec(this.texts.stdout + this.texts.stderr)
      if (match) resolve(match)
    }
    this.#watchers.add(watcher)
    watcher()
    const unseen = async (): Promise<never> => {
      await ended
      const { stdout, stderr } = this.texts
      throw new Error(`ended without printing ${pattern}:\n${stdout}${stderr}`)
    }
    return Promise.race([promise, unseen()])
  }
}

/** Has a running server run one row. Only what the server does with it matters. */
export async function sendRow(url: string, folder?: string): Promise<Finished> {
  const row = ['--server', url, '-d', 'data/words.jsonl', '--rows', '0']
  const args = [...row, '--policy', 'policies/echo.ts', '--output', temporaryFolder()]
  return run(['eval', 'run', ...args], {}, folder)
}

/** What a run wrote. */
export interface Results {
  /** Of `index.jsonl`. */
  readonly records: readonly Record<string, unknown>[]
  readonly run: Record<string, unknown>
  readonly summary: Record<string, unknown> & { scores?: Record<string, unknown> }
}

/** Reads the files of a run. JSON.parse takes no NaN. */
export function readResults(folder: string): Results {
  const text = (name: string): string => readFileSync(path.join(folder, name), 'utf8')
  const metrics = JSON.parse(text('metrics.json')) as {
    eval_run: Results['run']
    summary: Results['summary']
  }
  const lines = text('index.jsonl').split('\n')
  return {
    records: lines
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>),
    run: metrics.eval_run,
    summary: metrics.summary,
  }
}

/** An evaluation that has ended, and what it wrote. */
export type Evaluated = Finished & Results

/** An environment in which a loop does not ask again for what was refused. */
const noRetries = { OSMOSIS_ROLLOUT_CLIENT_MAX_RETRIES: '0' }

/**
 * Runs `osmosis eval run` and reads what it wrote.
 *
 * @param flags - words of the command line, with spaces between them
 */
export async function evaluate(...flags: readonly string[]): Promise<Evaluated> {
  const args = flags.flatMap((words) => words.split(' '))
  const output = temporaryFolder()
  const place = ['--output', path.join(output, 'made/on/demand'), '--name', 'run']
  const finished = await run(['eval', 'run', ...args, ...place], noRetries)
  return { ...finished, ...readResults(path.join(output, 'made/on/demand/run')) }
}
