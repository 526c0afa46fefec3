import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { onTestFinished } from 'vitest'

/** What a front in a process of its own prints, line by line. */
export interface FrontProcess {
  readonly pid: number
  /** The code it ended with. */
  readonly ended: Promise<unknown>
  next(): Promise<string>
}

/** Starts a front, as the leader of a process group, that runs these rollouts at once. */
export function startFront(policyUrl: string, ...does: string[]): FrontProcess {
  const file = path.join(import.meta.dirname, 'front-process.ts')
  const front = spawn(process.execPath, [file, policyUrl, ...does], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const pid = front.pid ?? 0
  onTestFinished(() => {
    front.kill('SIGKILL')
  })
  const lines = createInterface(front.stdout)[Symbol.asyncIterator]()
  const ended = once(front, 'exit').then(([code]) => code as unknown)
  return { pid, ended, next: async () => String((await lines.next()).value) }
}

/** Whether there is such a process. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
