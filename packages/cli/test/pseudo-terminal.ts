import path from 'node:path'

import { spawn } from '@lydell/node-pty'
import { onTestFinished } from 'vitest'

import { testEnvironment, workspace } from './osmosis.ts'

const bin = path.resolve(import.meta.dirname, '../src/bin.ts')

/** The command in a real terminal, with somebody at the keyboard. */
export interface TerminalSession {
  /** Resolves with what was printed since the last call, up to and including `text`. */
  until(text: string): Promise<string>
  type(keys: string): void
  /** Resolves when the command has ended. */
  readonly ended: Promise<{ code: number | null; rest: string }>
}

/** Starts the `osmosis` command in a terminal. */
export function startInTerminal(
  args: readonly string[],
  { env = {}, cwd = workspace }: { env?: Record<string, string>; cwd?: string } = {},
): TerminalSession {
  const terminal = spawn(process.execPath, [bin, ...args], {
    cols: 200,
    cwd,
    env: { ...testEnvironment, TERM: 'dumb', ...env },
  })
  let printed = ''
  let over = false
  const waiting = new Set<() => void>()
  const wake = (): void => {
    for (const resolve of waiting) resolve()
    waiting.clear()
  }
  terminal.onData((text) => {
    // eslint-disable-next-line no-control-regex
    printed += text.replaceAll(/\u001b\[[\d;?]*[A-Za-z]/g, '').replaceAll('\r', '')
    wake()
  })
  const ended = new Promise<{ code: number | null; rest: string }>((resolve) => {
    terminal.onExit(({ exitCode }) => {
      over = true
      wake()
      resolve({ code: exitCode, rest: printed })
    })
  })
  onTestFinished(async () => {
    if (!over) terminal.kill('SIGKILL')
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
    type: (keys) => terminal.write(keys),
    ended,
  }
}
