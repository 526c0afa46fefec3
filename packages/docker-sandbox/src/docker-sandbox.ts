import { randomUUID } from 'node:crypto'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import {
  type ExecOptions,
  type ExecResult,
  type ReadOptions,
  type Sandbox,
  sandboxLimits,
  tooLarge,
} from '@osmosis/core/sandbox'
import type Docker from 'dockerode'

import { type CommandEnd, type CommandSettings, runCommand } from './run-command.ts'
import {
  dockerDaemon,
  type DockerSandboxOptions,
  failed,
  isGone,
  startContainer,
} from './start-container.ts'

/** The folder of the sandbox in its container. */
const folder = '/work'

/** Names the command that a process belongs to, in the variables of the process. */
const commandVariable = 'SANDBOX_COMMAND'

/**
 * Kills all processes of this user except those of the commands "$@", which still run. A process that starts others must
 * not escape, so it looks several times. A command that begins has the variables of Docker's own program (`runc init`) first,
 * and whatever is replaced by another program has none for a moment: such a process is looked at again before it is killed.
 */
const killOthers = `[ $# -gt 1 ] || { kill -9 -1; exit 0; }
for time in 1 2 3; do
  for process in /proc/[0-9]*; do
    kill -0 "\${process#/proc/}" 2>/dev/null || continue
    variables=$(cat "$process/environ" 2>/dev/null)
    for again in 1 2 3 4 5; do
      case $(tr '\\0' ' ' 2>/dev/null <"$process/cmdline"):$variables in
        *'runc init '*:*) ;;
        *:) ;;
        *) break;;
      esac
      case $(cat "$process/stat" 2>/dev/null) in ''|*') Z '*) break;; esac
      sleep 0.05
      variables=$(cat "$process/environ" 2>/dev/null)
    done
    for command in "$@"; do
      case $variables in *"$command"*) continue 2;; esac
    done
    kill -9 "\${process#/proc/}" 2>/dev/null
  done
done
exit 0`

/** How long an attempt to kill processes may take. */
const killSeconds = 10

/**
 * Runs commands in a container of its own, which {@link DockerSandbox.close} removes. The Docker daemon is the one of
 * `DOCKER_HOST`, else the local one.
 *
 * Exit codes are those of Docker. What a command started ends with it, so nothing runs beside a judge that runs alone; a judge
 * that loads what the agent wrote, such as files or settings in the folder, can still be deceived.
 */
export class DockerSandbox implements Sandbox {
  readonly #container: Docker.Container
  readonly #user: string
  readonly #limits: ReturnType<typeof sandboxLimits>
  readonly #running = new Set<string>()
  #killing: Promise<void> = Promise.resolve()
  /** Shared by all commands that end before it begins. */
  #nextKilling: Promise<void> | undefined
  #removed: Promise<void> | undefined

  private constructor(
    container: Docker.Container,
    user: string,
    limits: ReturnType<typeof sandboxLimits>,
  ) {
    this.#container = container
    this.#user = user
    this.#limits = limits
  }

  /**
   * Starts the container.
   *
   * @throws OsmosisError with code `tool_failed` when the daemon cannot be reached, has no such image and cannot
   * pull it, or refuses the container; `invalid_config` for a limit that is none; the reason of `signal`
   */
  static async start(options: DockerSandboxOptions): Promise<DockerSandbox> {
    const limits = sandboxLimits(options)
    const { container, user } = await startContainer(dockerDaemon(), {
      ...options,
      diskBytes: positive('diskBytes', options.diskBytes ?? 10 * 1024 ** 3),
      memoryBytes: positive('memoryBytes', options.memoryBytes ?? 1024 ** 3),
      maxProcesses: positive('maxProcesses', options.maxProcesses ?? 256),
      folder,
    })
    return new DockerSandbox(container, user, limits)
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
    const { isStarted, exitCode, stdout, stderr, timedOut } = end
    if (!isStarted) throw failed(`${words[0]} cannot be started`, stdout.text)
    const truncated = stdout.truncated || stderr.truncated
    return { exitCode, stdout: stdout.text, stderr: stderr.text, timedOut, truncated }
  }

  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const { maxBytes } = sandboxLimits(options, this.#limits)
    const line =
      'if [ -e "$0" ] && ! [ -f "$0" ]; then echo not a regular file >&2; exit 1; fi; cat "$0"'
    const end = await this.#run(['/bin/sh', '-c', line, inside(file)], {
      maxOutputBytes: maxBytes,
      endsWhenTruncated: true,
    })
    if (end.stdout.truncated) throw tooLarge(file, maxBytes)
    if (end.exitCode === 0) return end.stdout.bytes
    throw failed(`${file} cannot be read`, end.stderr.text || 'it does not end')
  }

  async write(file: string, content: string | Uint8Array): Promise<void> {
    const target = inside(file)
    const line =
      'if [ -e "$0" ] && ! [ -f "$0" ]; then echo not a regular file >&2; exit 1; fi; mkdir -p "${0%/*}" && cat > "$0"'
    const end = await this.#run(['/bin/sh', '-c', line, target], { input: content })
    if (end.exitCode !== 0) {
      throw failed(`${file} cannot be written`, end.stderr.text || 'it does not end')
    }
  }

  /** Removes the container, with what runs in it. Has no effect the second time. */
  async close(): Promise<void> {
    this.#removed ??= this.#container.remove({ force: true }).catch((error: unknown) => {
      // Docker removes it itself when it ends: 404, or 409 while it does so.
      if (!isGone(error)) {
        throw failed('The container cannot be removed', error)
      }
    })
    await this.#removed
  }

  async #run(words: readonly string[], settings: Partial<CommandSettings>): Promise<CommandEnd> {
    await this.#killed()
    if (this.#removed !== undefined) throw new OsmosisError('tool_failed', 'The sandbox is closed.')
    const command = randomUUID()
    this.#running.add(command)
    const kill = async (): Promise<void> => {
      this.#running.delete(command)
      await this.#killOthers()
    }
    try {
      const end = await this.#runAs(command, words, { kill, ...settings })
      return this.#removed === undefined ? end : { ...end, exitCode: null }
    } catch (error) {
      throw failed(isGone(error) ? 'The container has ended' : 'Docker failed', error)
    } finally {
      await kill()
    }
  }

  async #runAs(
    command: string,
    words: readonly string[],
    settings: Partial<CommandSettings> & Pick<CommandSettings, 'kill'>,
  ): Promise<CommandEnd> {
    return runCommand(this.#container, words, {
      ...this.#limits,
      cwd: folder,
      user: this.#user,
      input: '',
      endsWhenTruncated: false,
      signal: undefined,
      ...settings,
      env: { ...settings.env, [commandVariable]: command },
    })
  }

  /** A command that starts while others are killed would be one of them. */
  async #killed(): Promise<void> {
    for (let known; known !== this.#killing; await known) known = this.#killing
  }

  /** Kills what no running command has started. */
  async #killOthers(): Promise<void> {
    this.#nextKilling ??= this.#killAfter(this.#killing)
    this.#killing = this.#nextKilling
    await this.#killing
  }

  async #killAfter(earlier: Promise<void>): Promise<void> {
    await earlier
    this.#nextKilling = undefined
    if (this.#removed !== undefined) return
    // What has to be killed may stop or kill the one that does it.
    for (let time = 0; time < 3; time += 1) {
      if (await this.#killNow()) return
    }
    await this.close()
  }

  /** Whether all were killed. They are not where, for example, there are as many processes as there may be. */
  async #killNow(): Promise<boolean> {
    const own = randomUUID()
    const words = ['/bin/sh', '-c', killOthers, 'sh', own, ...this.#running]
    const settings = { cwd: '/', kill: async () => {}, timeoutSeconds: killSeconds }
    return this.#runAs(own, words, settings).then(
      ({ exitCode }) => exitCode === 0,
      () => false,
    )
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
