import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { onTestFinished } from 'vitest'

/** A process with a pool, and the lines that it prints. */
export interface ParentProcess {
  readonly pid: number
  /** Its exit code. */
  readonly ended: Promise<unknown>
  next(): Promise<string>
}

/** Starts a process with a pool, as the leader of a process group, that runs these rollouts concurrently. */
export function startParent(policyUrl: string, ...does: string[]): ParentProcess {
  const file = path.join(import.meta.dirname, 'parent-process.ts')
  const parent = spawn(process.execPath, [file, policyUrl, ...does], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const pid = parent.pid ?? 0
  onTestFinished(() => {
    parent.kill('SIGKILL')
  })
  const lines = createInterface(parent.stdout)[Symbol.asyncIterator]()
  const ended = once(parent, 'exit').then(([code]) => code as unknown)
  return { pid, ended, next: async () => String((await lines.next()).value) }
}
