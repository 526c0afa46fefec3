import { spawn, type ChildProcess } from 'node:child_process'
import path from 'node:path'

export const root = path.resolve(import.meta.dirname, '../..')

export interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

/** Starts a command of the workspace's own, e.g. `osmosis`, in its root. */
export function start(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  return spawn(path.join(root, 'node_modules/.bin', command), args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** The URL on which a server command listens; rejects when the command ends before. */
export async function listeningUrl(child: ChildProcess): Promise<string> {
  let printed = ''
  return new Promise((resolve, reject) => {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      printed += text
      const [, url] = /Listening on (\S+)/.exec(printed) ?? []
      if (url !== undefined) resolve(url)
    })
    child.once('close', () => reject(new Error(`ended before it listened:\n${printed}`)))
  })
}

/** Runs a command of the workspace's own to its end. */
export async function run(command: string, args: readonly string[]): Promise<Finished> {
  const child = start(command, args)
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
    })
  }
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, ...output }))
  })
}
