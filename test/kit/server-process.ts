import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { onTestFinished } from 'vitest'

/** A server in a process of its own. */
export interface TestServerProcess extends AsyncDisposable {
  /** What it printed first. */
  readonly url: string
  /** Exit code and signal. */
  readonly exit: Promise<unknown[]>
  kill(signal: NodeJS.Signals): void
  /** Kills it at once. */
  end(): Promise<void>
  /** What it has logged so far. */
  log(): Record<string, unknown>[]
  /** Resolves when a line with this in its message has been logged. */
  logged(message: string): Promise<void>
  /**
   * Freezes its disk after this number of further steps (opening to write, writing, truncating, syncing,
   * renaming, removing). Resolves with the step that was then not executed, or only in part.
   */
  freezeDisk(steps: number): Promise<string>
}

/**
 * Starts a program that prints its URL when it serves.
 *
 * @param keep - receives the function that ends it. Default: it ends with the test
 */
export async function startServerProcess(
  script: URL,
  env: Readonly<Record<string, string | undefined>> = {},
  keep: (end: () => Promise<void>) => void = onTestFinished,
): Promise<TestServerProcess> {
  const disk = fileURLToPath(new URL('freezing-disk.ts', import.meta.url))
  const child = spawn(process.execPath, ['--import', disk, fileURLToPath(script)], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { ...process.env, ...env },
  })
  const exit = once(child, 'exit')
  const end = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exit
  }
  keep(end)
  let log = ''
  child.stderr?.on('data', (data: Buffer) => (log += data.toString()))
  const first = child.stdout === null ? exit : Promise.race([once(child.stdout, 'data'), exit])
  const [line] = (await first) as unknown[]
  if (!Buffer.isBuffer(line)) throw new Error(`the program ended before it served: ${log}`)
  return {
    url: line.toString().trim(),
    exit,
    kill: (signal) => void child.kill(signal),
    end,
    log: () =>
      log
        .split('\n')
        .filter((text) => text !== '')
        .map((text) => JSON.parse(text) as Record<string, unknown>),
    async logged(message) {
      while (!log.includes(JSON.stringify(message).slice(1, -1)) && child.stderr !== null) {
        await once(child.stderr, 'data')
      }
    },
    async freezeDisk(steps) {
      const frozen = once(child, 'message')
      child.send(steps)
      const [step] = (await frozen) as [string]
      return step
    },
    [Symbol.asyncDispose]: end,
  }
}

/** Whether a process runs. One that has ended may wait, as a zombie, for a parent that never asks how it ended. */
export function isRunning(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
  return stdout.trim() !== '' && !stdout.trim().startsWith('Z')
}
