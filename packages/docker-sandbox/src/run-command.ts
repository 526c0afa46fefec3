import { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'

import { startTimer } from '@osmosis/core/http'
import { LimitedOutput } from '@osmosis/core/sandbox'
import type Docker from 'dockerode'

import { isGone } from './start-container.ts'

export interface CommandSettings {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly user: string
  readonly input: string | Uint8Array
  readonly timeoutSeconds: number
  readonly maxOutputBytes: number
  /** Whether it is killed as soon as it has written more than that. */
  readonly endsWhenTruncated: boolean
  readonly signal: AbortSignal | undefined
  /** Ends the command. */
  readonly kill: () => Promise<void>
}

export interface CommandEnd {
  /** Whether Docker could start it; otherwise its output says why not. */
  readonly isStarted: boolean
  /** As Docker knows it; null when the command was killed. */
  readonly exitCode: number | null
  readonly stdout: LimitedOutput
  readonly stderr: LimitedOutput
  readonly timedOut: boolean
}

/** How long output may stay open after its command has ended: another process may hold it. */
const graceMs = 1000
/** How often a command whose output is open is inspected. */
const inspectEveryMs = 500
/** How long Docker may take to say how a command ended. */
const patienceMs = 5000

/** Runs a command in a container until it ends. What it started may still run. */
export async function runCommand(
  container: Docker.Container,
  words: readonly string[],
  settings: CommandSettings,
): Promise<CommandEnd> {
  const { input, timeoutSeconds, signal } = settings
  const exec = await container.exec({
    Cmd: [...words],
    User: settings.user,
    WorkingDir: settings.cwd,
    Env: Object.entries(settings.env).map(([name, value]) => `${name}=${value}`),
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
  })
  const stream = await exec.start({ hijack: true, stdin: true })
  const stdout = new LimitedOutput(settings.maxOutputBytes)
  const stderr = new LimitedOutput(settings.maxOutputBytes)
  let isKilled = false
  let timedOut = false
  const closeSoon = (): void => void setTimeout(() => stream.destroy(), graceMs)
  const kill = (): void => {
    if (isKilled) return
    isKilled = true
    settings.kill().then(closeSoon, closeSoon)
  }
  const timer = startTimer(timeoutSeconds * 1000, () => {
    timedOut = true
    kill()
  })
  signal?.addEventListener('abort', kill, { once: true })
  if (signal?.aborted) kill()
  const add = (output: LimitedOutput) => (piece: Uint8Array) => {
    output.add(piece)
    if (settings.endsWhenTruncated && output.truncated) kill()
  }
  const { modem } = container as { modem: Docker['modem'] }
  modem.demuxStream(stream, sink(add(stdout)), sink(add(stderr)))
  // A command need not read its input: Docker then resets the connection, and has the exit code all the same.
  stream.on('error', () => {})
  const closed = new Promise<void>((resolve) => void stream.once('close', resolve))
  stream.end(input)
  const watching = new AbortController()
  const watched = closeAfterEnd(exec, stream, watching.signal)
  try {
    await closed
    watching.abort()
    await watched
    const { Pid, ExitCode } = await endOf(exec, () => isKilled)
    return {
      isStarted: Pid !== 0,
      exitCode: isKilled ? null : ExitCode,
      stdout,
      stderr,
      timedOut,
    }
  } finally {
    timer.clear()
    signal?.removeEventListener('abort', kill)
  }
}

/** Closes the output of a command that has ended, although a process that it started holds it open. */
async function closeAfterEnd(
  exec: Docker.Exec,
  stream: NodeJS.ReadWriteStream & { destroy(): void },
  signal: AbortSignal,
): Promise<void> {
  try {
    do await sleep(inspectEveryMs, undefined, { signal })
    // A daemon that does not answer now may answer the next time.
    while (
      await inspected(exec).then(
        ({ Running }) => Running,
        () => true,
      )
    )
    await sleep(graceMs, undefined, { signal })
    stream.destroy()
  } catch {
    // Its output has ended.
  }
}

type CommandState = Pick<Docker.ExecInspectInfo, 'Running' | 'ExitCode'> & { readonly Pid?: number }

const killed: CommandState = { Running: false, ExitCode: null }

/** The state of a command. A container that has been removed has killed it. */
async function inspected(exec: Docker.Exec): Promise<CommandState> {
  try {
    return await exec.inspect()
  } catch (error) {
    if (isGone(error)) return killed
    throw error
  }
}

/**
 * How a command ended whose output has ended. Docker learns the exit code a moment later, and a command that has closed its
 * outputs runs on, until it ends or is killed.
 *
 * @throws the error of Docker where that does not say for a while how the command is: it is no exit code
 */
async function endOf(exec: Docker.Exec, isKilled: () => boolean): Promise<CommandState> {
  let killedAt = Infinity
  let silentAt = Infinity
  for (let pauseMs = 10; ; pauseMs = Math.min(pauseMs * 2, inspectEveryMs)) {
    const now = performance.now()
    if (isKilled()) killedAt = Math.min(killedAt, now)
    if (now - killedAt > patienceMs) return killed
    try {
      const state = await inspected(exec)
      if (!state.Running) return state
      silentAt = Infinity
    } catch (error) {
      silentAt = Math.min(silentAt, now)
      if (now - silentAt > patienceMs) throw error
    }
    await sleep(pauseMs)
  }
}

function sink(add: (piece: Uint8Array) => void): Writable {
  return new Writable({
    write(piece: Uint8Array, _, done) {
      add(piece)
      done()
    },
  })
}
