import { spawn, type ChildProcess } from 'node:child_process'
import path from 'node:path'

import { onTestFinished } from 'vitest'

import { workspace } from './osmosis.ts'

const bin = path.resolve(import.meta.dirname, '../src/bin.ts')
// Gives the command a terminal, passes on what is typed here and what it prints, and its exit code.
const relay = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))'

/** The command in a real terminal, with somebody at the keyboard. */
export interface TerminalSession {
  /** Resolves with what was printed since the last call, up to and including `text`. */
  until(text: string): Promise<string>
  type(keys: string): void
  /** Resolves when the command has ended. */
  readonly ended: Promise<{ code: number | null; rest: string }>
}

/** Starts the `osmosis` command in a terminal, which python3 makes. */
export function startInTerminal(args: readonly string[]): TerminalSession {
  const child: ChildProcess = spawn('python3', ['-c', relay, process.execPath, bin, ...args], {
    cwd: workspace,
    env: { ...process.env, TERM: 'dumb' },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let printed = ''
  let over = false
  const waiting = new Set<() => void>()
  const wake = (): void => {
    for (const resolve of waiting) resolve()
    waiting.clear()
  }
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    // eslint-disable-next-line no-control-regex
    printed += text.replaceAll(/\u001b\[[\d;?]*[A-Za-z]/g, '').replaceAll('\r', '')
    wake()
  })
  const ended = new Promise<{ code: number | null; rest: string }>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => {
      over = true
      wake()
      resolve({ code, rest: printed })
    })
  })
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return {
    until: async (text) => {
      while (!printed.includes(text)) {
        if (over) throw new Error(`ended without printing ${text}:\n${printed}`)
        const { promise, resolve } = Promise.withResolvers<void>()
        waiting.add(resolve)
        await promise
      }
      const end = printed.indexOf(text) + text.length
      const read = printed.slice(0, end)
      printed = printed.slice(end)
      return read
    },
    type: (keys) => void child.stdin?.write(keys),
    ended,
  }
}
