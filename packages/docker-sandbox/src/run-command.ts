import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Writable } from 'node:stream'

import { LimitedOutput } from '@osmosis/core/sandbox'
import type Docker from 'dockerode'

import { MarkedErrors } from './marked-errors.ts'

export interface CommandSettings {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly input: string | Uint8Array
  readonly timeoutSeconds: number
  readonly maxOutputBytes: number
  readonly signal: AbortSignal | undefined
}

export interface CommandEnd {
  /** Why it was not started, where it was not. */
  readonly notStarted: string | undefined
  readonly exitCode: number | null
  readonly stdout: LimitedOutput
  readonly stderr: LimitedOutput
  readonly timedOut: boolean
}

/**
 * Docker cannot end a command of a running container. So a shell, which leads a process group, tells its id, runs the
 * command, tells its exit code, and kills its group.
 */
const wrapper = `printf '%s %s\\n' "$0" "$$" >&2
command -v "$1" >/dev/null || { printf '\\n%s none\\n' "$0" >&2; exit 127; }
"$@"
printf '\\n%s %s\\n' "$0" "$?" >&2
kill -9 0`

/** How long output may stay open after its command has ended: a process that left the group may hold it. */
const graceMs = 1000

/** Runs a command in a container until it ends. */
export async function runCommand(
  container: Docker.Container,
  words: readonly string[],
  { cwd, env, input, timeoutSeconds, maxOutputBytes, signal }: CommandSettings,
): Promise<CommandEnd> {
  const mark = randomUUID()
  const exec = await container.exec({
    Cmd: ['/bin/sh', '-c', wrapper, mark, ...words],
    WorkingDir: cwd,
    Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
  })
  const stream = await exec.start({ hijack: true, stdin: true })
  const stdout = new LimitedOutput(maxOutputBytes)
  const stderr = new LimitedOutput(maxOutputBytes)
  let leader: number | undefined
  let isUnwanted = false
  let timedOut = false
  let grace: NodeJS.Timeout | undefined
  const closeSoon = (): void => {
    grace ??= setTimeout(() => stream.destroy(), graceMs)
  }
  const kill = (): void => {
    isUnwanted = true
    // Otherwise it is killed as soon as its process is known.
    if (leader !== undefined) killGroup(container, leader).then(closeSoon, closeSoon)
  }
  const errors = new MarkedErrors(mark, stderr, {
    leader: (pid) => {
      leader = pid
      if (isUnwanted) kill()
    },
    end: closeSoon,
  })
  const timer = setTimeout(() => {
    timedOut = true
    kill()
  }, timeoutSeconds * 1000)
  signal?.addEventListener('abort', kill, { once: true })
  if (signal?.aborted) kill()
  const { modem } = container as { modem: Docker['modem'] }
  modem.demuxStream(stream, sink(stdout), sink(errors))
  // A command need not read its input.
  stream.on('error', () => {})
  stream.end(input)
  await once(stream, 'close')
  clearTimeout(timer)
  clearTimeout(grace)
  signal?.removeEventListener('abort', kill)
  const { exitCode, started } = errors.finish()
  const notStarted = started ? undefined : stdout.text || 'no such program in the container'
  return { notStarted, exitCode, stdout, stderr, timedOut }
}

function sink(target: { add(piece: Uint8Array): void }): Writable {
  return new Writable({
    write(piece: Uint8Array, _, done) {
      target.add(piece)
      done()
    },
  })
}

async function killGroup(container: Docker.Container, leader: number): Promise<void> {
  const exec = await container.exec({ Cmd: ['/bin/sh', '-c', `kill -9 -${leader}`] })
  await exec.start({ Detach: true })
}
