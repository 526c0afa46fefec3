import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { lstat, mkdir, readFile, realpath, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '../errors.ts'
import { killGroup, spawnInGroup } from './process-group.ts'
import {
  type ExecOptions,
  type ExecResult,
  LimitedOutput,
  type Sandbox,
  sandboxLimits,
  type SandboxLimits,
} from './sandbox.ts'

/** Options of {@link LocalSandbox}. */
export interface LocalSandboxOptions extends SandboxLimits {
  /** The folder of the sandbox, such as `await ctx.workFolder()`. */
  readonly folder: string
  /**
   * All variables that commands get beside `HOME`, which is the folder. Give `PATH` at least: the variables of
   * the host, which may have keys, are not passed on.
   */
  readonly env: Readonly<Record<string, string | undefined>>
}

/** How long output may stay open after its command has ended: a process that left the group may hold it. */
const graceMs = 1000

/**
 * Runs commands on this machine, as its own user. It limits time and output, and ends a command with its process group;
 * it does not keep a command from other files or from the network: what an untrusted policy writes needs a container.
 */
export class LocalSandbox implements Sandbox {
  readonly #options: LocalSandboxOptions
  readonly #running = new Set<ChildProcess>()
  #isClosed = false

  constructor(options: LocalSandboxOptions) {
    sandboxLimits(options)
    this.#options = options
  }

  async exec(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    const { signal, input = '' } = options
    signal?.throwIfAborted()
    this.#assertOpen()
    const limits = sandboxLimits(options, this.#options)
    const { folder, env } = this.#options
    const cwd = await this.#inside(options.cwd ?? '.')
    const [program = '', ...args] =
      typeof command === 'string' ? ['/bin/sh', '-c', command] : command
    this.#assertOpen()
    const child = spawnInGroup(program, args, {
      cwd,
      env: { ...env, HOME: folder, ...options.env },
      signal,
    })
    this.#running.add(child)
    let timedOut = false
    const timer = setTimeout(() => {
      timedOut = true
      killGroup(child)
    }, limits.timeoutSeconds * 1000)
    const stdout = new LimitedOutput(limits.maxOutputBytes)
    const stderr = new LimitedOutput(limits.maxOutputBytes)
    child.stdout.on('data', (piece: Uint8Array) => stdout.add(piece))
    child.stderr.on('data', (piece: Uint8Array) => stderr.add(piece))
    let grace: NodeJS.Timeout | undefined
    child.once('exit', () => {
      grace = setTimeout(() => {
        child.stdout.destroy()
        child.stderr.destroy()
      }, graceMs)
    })
    // A command need not read its input.
    child.stdin.on('error', () => {}).end(input)
    try {
      const [exitCode] = (await once(child, 'close')) as [number | null]
      signal?.throwIfAborted()
      const truncated = stdout.truncated || stderr.truncated
      return { exitCode, stdout: stdout.text, stderr: stderr.text, timedOut, truncated }
    } catch (cause) {
      signal?.throwIfAborted()
      throw failed(`${program} cannot be started`, cause)
    } finally {
      clearTimeout(timer)
      clearTimeout(grace)
      this.#running.delete(child)
    }
  }

  async read(file: string): Promise<Uint8Array> {
    const target = await this.#inside(file)
    return readFile(target).catch((error: unknown) => {
      throw failed(`${file} cannot be read`, error)
    })
  }

  async write(file: string, content: string | Uint8Array): Promise<void> {
    this.#assertOpen()
    const target = await this.#inside(file)
    try {
      await mkdir(path.dirname(target), { recursive: true })
      await writeFile(target, content)
    } catch (error) {
      throw failed(`${file} cannot be written`, error)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const ended = [...this.#running].map(async (child) => once(child, 'close').catch(() => {}))
    for (const child of this.#running) killGroup(child)
    await Promise.all(ended)
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new OsmosisError('tool_failed', 'The sandbox is closed.')
  }

  /** The real path of a file that may not exist yet, with links followed. */
  async #inside(file: string): Promise<string> {
    const root = await realpath(this.#options.folder)
    const target = path.resolve(root, file)
    let known = target
    while (!(await exists(known))) known = path.dirname(known)
    // A link that leads nowhere has no real path: writing to it would create what it names.
    const start = await realpath(known).catch(() => '')
    const real = path.join(start, path.relative(known, target))
    if (real === root || real.startsWith(root + path.sep)) return real
    throw new OsmosisError(
      'invalid_request',
      `${file} is outside of the folder of the sandbox: expected a path below it.`,
    )
  }
}

async function exists(file: string): Promise<boolean> {
  return lstat(file).then(
    () => true,
    () => false,
  )
}

function failed(what: string, cause: unknown): OsmosisError {
  return new OsmosisError('tool_failed', `${what}: ${errorMessage(cause)}`, { cause })
}
