import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'

import { errorMessage, isOsmosisError, OsmosisError } from '../errors.ts'
import { startTimer } from '../http/waiting.ts'
import { killGroup, spawnInGroup } from './process-group.ts'
import { createBelow, openBelow, pathBelow, readLimited } from './regular-file.ts'
import {
  type ExecOptions,
  type ExecResult,
  LimitedOutput,
  type ReadOptions,
  type Sandbox,
  sandboxLimits,
  type SandboxLimits,
} from './sandbox.ts'

/** Options of {@link LocalSandbox}. */
export interface LocalSandboxOptions extends SandboxLimits, ReadOptions {
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
 * Runs commands on this machine, as its own user. On Linux, a write creates nothing outside of the folder, also while a
 * command makes links of its folders. It limits time and output, and ends a command with its process group;
 * it does not keep a command from other files, from the variables of this process, which it can read, or from the network:
 * what an untrusted policy writes needs a container.
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
    const [program = '', ...args] =
      typeof command === 'string' ? ['/bin/sh', '-c', command] : command
    const notStarted = `${program} cannot be started`
    // Some failures are thrown, and others are events.
    const child = await orFailed(notStarted, async () => {
      const cwd = await pathBelow(folder, options.cwd ?? '.')
      // Node.js says of a program in a folder that is none that there is no such program.
      await access(`${cwd}/.`)
      this.#assertOpen()
      const variables = { ...env, HOME: folder, ...options.env }
      return spawnInGroup(program, args, { cwd, env: variables, signal })
    })
    this.#running.add(child)
    let timedOut = false
    const timer = startTimer(limits.timeoutSeconds * 1000, () => {
      timedOut = true
      killGroup(child)
    })
    const stdout = new LimitedOutput(limits.maxOutputBytes)
    const stderr = new LimitedOutput(limits.maxOutputBytes)
    child.stdout.on('data', (piece: Uint8Array) => stdout.add(piece))
    child.stderr.on('data', (piece: Uint8Array) => stderr.add(piece))
    let grace: NodeJS.Timeout | undefined
    child.once('exit', () => {
      timer.clear()
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
      throw failed(notStarted, cause)
    } finally {
      timer.clear()
      clearTimeout(grace)
      this.#running.delete(child)
    }
  }

  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const { maxBytes } = sandboxLimits(options, this.#options)
    return orFailed(`${file} cannot be read`, async () => {
      const handle = await openBelow(this.#options.folder, file, constants.O_RDONLY)
      try {
        return await readLimited(handle, file, maxBytes)
      } finally {
        await handle.close()
      }
    })
  }

  async write(file: string, content: string | Uint8Array): Promise<void> {
    this.#assertOpen()
    const { folder } = this.#options
    await orFailed(`${file} cannot be written`, async () => {
      const handle = await createBelow(folder, file)
      try {
        await handle.truncate()
        await handle.writeFile(content)
      } finally {
        await handle.close()
      }
    })
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
}

async function orFailed<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw isOsmosisError(error) ? error : failed(what, error)
  }
}

function failed(what: string, cause: unknown): OsmosisError {
  return new OsmosisError('tool_failed', `${what}: ${errorMessage(cause)}`, { cause })
}
