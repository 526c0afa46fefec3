import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import {
  type ExecOptions,
  type ExecResult,
  type Sandbox,
  sandboxLimits,
  type SandboxLimits,
} from '@osmosis/core/sandbox'
import Docker from 'dockerode'

import { type CommandEnd, type CommandSettings, runCommand } from './run-command.ts'
import { failed, startContainer, statusOf } from './start-container.ts'

/** Options of {@link DockerSandbox.start}. */
export interface DockerSandboxOptions extends SandboxLimits {
  /** The image, such as `python:3.13-slim`; pulled where it is missing. It needs `sh`, `cat`, `mkdir` and `sleep`. */
  readonly image: string
  /** Memory of the container, without swap. Bytes; default 1 GiB. */
  readonly memoryBytes?: number
  /** Number of processes and threads at a time. Default 256. */
  readonly maxProcesses?: number
  /** Whether commands reach the network. Default: false. */
  readonly network?: boolean
  /** Variables beside those of the image. `HOME` is the folder of the sandbox. */
  readonly env?: Readonly<Record<string, string>>
  /** More of the container's `HostConfig`, as the Docker Engine API names it, such as `NanoCpus`. */
  readonly hostConfig?: Readonly<Record<string, unknown>>
  /** Ends the start when aborted, such as `ctx.signal`. */
  readonly signal?: AbortSignal | undefined
}

/** The folder of the sandbox in its container. */
const folder = '/work'

/**
 * Runs commands in a container of its own, which {@link DockerSandbox.close} removes. The Docker daemon is the one of
 * `DOCKER_HOST`, else the local one.
 */
export class DockerSandbox implements Sandbox {
  readonly #container: Docker.Container
  readonly #limits: Required<SandboxLimits>
  #removed: Promise<void> | undefined

  private constructor(container: Docker.Container, limits: Required<SandboxLimits>) {
    this.#container = container
    this.#limits = limits
  }

  /**
   * Starts the container.
   *
   * @throws OsmosisError with code `tool_failed` when the daemon cannot be reached, or has no such image and cannot
   * pull it; `invalid_config` for a limit that is none
   */
  static async start(options: DockerSandboxOptions): Promise<DockerSandbox> {
    const limits = sandboxLimits(options)
    const container = await startContainer(new Docker(), {
      image: options.image,
      memoryBytes: positive('memoryBytes', options.memoryBytes ?? 1024 ** 3),
      maxProcesses: positive('maxProcesses', options.maxProcesses ?? 256),
      network: options.network ?? false,
      env: { ...options.env, HOME: folder },
      hostConfig: options.hostConfig ?? {},
      folder,
      signal: options.signal,
    })
    return new DockerSandbox(container, limits)
  }

  async exec(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    const { signal } = options
    signal?.throwIfAborted()
    const words = typeof command === 'string' ? ['/bin/sh', '-c', command] : command
    const end = await this.#run(words, {
      ...sandboxLimits(options, this.#limits),
      cwd: inside(options.cwd ?? '.'),
      env: options.env ?? {},
      input: options.input ?? '',
      signal,
    })
    signal?.throwIfAborted()
    if (end.notStarted !== undefined) {
      throw failed(`${words[0]} cannot be started`, end.notStarted)
    }
    const { exitCode, stdout, stderr, timedOut } = end
    const truncated = stdout.truncated || stderr.truncated
    return { exitCode, stdout: stdout.text, stderr: stderr.text, timedOut, truncated }
  }

  async read(file: string): Promise<Uint8Array> {
    const end = await this.#run(['cat', inside(file)], { maxOutputBytes: Infinity })
    if (end.exitCode === 0) return end.stdout.bytes
    throw failed(`${file} cannot be read`, end.notStarted ?? end.stderr.text)
  }

  async write(file: string, content: string | Uint8Array): Promise<void> {
    const target = inside(file)
    const line = `mkdir -p "\${0%/*}" && cat > "$0"`
    const end = await this.#run(['/bin/sh', '-c', line, target], { input: content })
    if (end.exitCode !== 0) {
      throw failed(`${file} cannot be written`, end.notStarted ?? end.stderr.text)
    }
  }

  /** Removes the container, with what runs in it. Has no effect the second time. */
  async close(): Promise<void> {
    this.#removed ??= this.#container.remove({ force: true }).catch((error: unknown) => {
      // Docker removes it itself when it ends: 404, or 409 while it does so.
      if (statusOf(error) !== 404 && statusOf(error) !== 409) {
        throw failed('The container cannot be removed', error)
      }
    })
    await this.#removed
  }

  async #run(words: readonly string[], settings: Partial<CommandSettings>): Promise<CommandEnd> {
    if (this.#removed !== undefined) throw new OsmosisError('tool_failed', 'The sandbox is closed.')
    try {
      return await runCommand(this.#container, words, {
        ...this.#limits,
        cwd: folder,
        env: {},
        input: '',
        signal: undefined,
        ...settings,
      })
    } catch (error) {
      const isOver = statusOf(error) === 404 || statusOf(error) === 409
      throw failed(isOver ? 'The container has ended' : 'Docker refused the command', error)
    }
  }
}

function positive(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value
  throw new OsmosisError('invalid_config', `${name} must be a whole number above 0, got ${value}.`)
}

/** The path of a file in the container. What links of the container lead to is in the container as well. */
function inside(file: string): string {
  const target = path.posix.resolve(folder, file)
  if (target === folder || target.startsWith(`${folder}/`)) return target
  throw new OsmosisError(
    'invalid_request',
    `${file} is outside of the folder of the sandbox: expected a path below it.`,
  )
}
