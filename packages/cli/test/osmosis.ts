import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { onTestFinished } from 'vitest'

export const bin = path.resolve(import.meta.dirname, '../src/bin.ts')

/** A small Osmosis workspace that needs nothing but core. */
export const workspace = path.join(import.meta.dirname, 'workspace')

/** A home folder for files such as trajectories, instead of that of the developer. */
const home = mkdtempSync(path.join(tmpdir(), 'osmosis-cli-home-'))
process.once('exit', () => rmSync(home, { recursive: true, force: true }))

/** A stand-in of uv, so that no test depends on whether this machine has it. */
writeFileSync(path.join(home, 'uv'), '#!/bin/sh\necho uv 0.9.0\n', { mode: 0o755 })

/** The variables of commands. */
export const testEnvironment: Readonly<Record<string, string | undefined>> = {
  ...process.env,
  HOME: home,
  PATH: `${home}${path.delimiter}${process.env['PATH']}`,
}

export interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

export interface RunningCommand {
  child: ChildProcess
  finished: Promise<Finished>
  /** Resolves with the match as soon as what was printed on stdout and stderr matches. */
  printed(pattern: RegExp): Promise<RegExpExecArray>
}

/** Starts the `osmosis` command as a user would, by default in the test workspace. */
export function startOsmosis(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = workspace,
): RunningCommand {
  const child = spawn(process.execPath, [bin, ...args], {
    cwd,
    env: { ...testEnvironment, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { stdout: '', stderr: '' }
  const watchers = new Set<() => void>()
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
      for (const watcher of watchers) watcher()
    })
  }
  const finished = new Promise<Finished>((resolve) => {
    child.once('close', (code) => resolve({ code, ...output }))
  })
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await finished
  })
  return {
    child,
    finished,
    printed: (pattern) =>
      new Promise((resolve, reject) => {
        const watcher = (): void => {
          const match = pattern.exec(output.stdout + output.stderr)
          if (match) resolve(match)
        }
        watchers.add(watcher)
        watcher()
        child.once('close', () => {
          reject(new Error(`ended without printing ${pattern}:\n${output.stdout}${output.stderr}`))
        })
      }),
  }
}

/** Runs the `osmosis` command to its end. */
export async function osmosis(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = workspace,
): Promise<Finished> {
  return startOsmosis(args, env, cwd).finished
}

export function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'osmosis-cli-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}
