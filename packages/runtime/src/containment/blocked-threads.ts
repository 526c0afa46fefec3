import { spawn } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

// User code may open a FIFO, and a disk may be gone: a thread of libuv then waits forever. There are few of them.

/** Questions without an answer, by folder: one that is never answered is not asked again. */
const asked = new Map<string, Promise<void>>()

/** The folders that this process needs. */
const needed = new Set([tmpdir()])

/** Returns whether the file system of a folder answers within a time. The process needs it until its end. */
export function watchFileSystem(folder: string): (limitMs: number) => Promise<boolean> {
  needed.add(folder)
  return async (limitMs) => fileSystemAnswers(folder, limitMs)
}

async function fileSystemAnswers(folder: string, limitMs: number): Promise<boolean> {
  const answer = asked.get(folder) ?? ask(folder)
  const late = new AbortController()
  const limit = sleep(limitMs, true, { ref: false, signal: late.signal }).catch(() => false)
  const isLate = await Promise.race([answer, limit])
  late.abort()
  // An event loop that was busy may find the answer after the time.
  if (isLate === true) await setImmediate()
  return asked.get(folder) !== answer
}

async function ask(folder: string): Promise<void> {
  const answer = stat(folder).then(
    () => void asked.delete(folder),
    () => void asked.delete(folder),
  )
  asked.set(folder, answer)
  return answer
}

/** How long the file system may not answer while a process ends. */
const longestMs = 10_000

/**
 * Ends the process when its file system stops answering: its end would wait forever.
 *
 * @param ended - aborted when it needs no watching any more
 */
export function endWhenBlocked(ended: AbortSignal, exitCode: number, onBlocked: () => void): void {
  const watch = async (): Promise<void> => {
    while (await allAnswer()) {
      await sleep(1000, undefined, { ref: false, signal: ended }).catch(() => {})
      if (ended.aborted) return
    }
    onBlocked()
    process.exit(exitCode)
  }
  watch().catch(() => {})
}

async function allAnswer(): Promise<boolean> {
  const folders = [...needed]
  const answers = folders.map(async (folder) => fileSystemAnswers(folder, longestMs))
  return (await Promise.all(answers)).every(Boolean)
}

/** Kills a process unless it has ended, which closes the standard input. */
const killer = `
process.stdin.on('end', () => process.exit()).resume()
setTimeout(() => process.kill(Number(process.argv[1]), 'SIGKILL'), 1000)`

let exitsDespiteThreads = false

/** Makes `process.exit` end the process although threads wait for the file system. Idempotent. */
export function exitDespiteThreads(): void {
  if (exitsDespiteThreads) return
  exitsDespiteThreads = true
  process.on('exit', () => {
    // Node.js joins all threads after this, and no code of this process runs any more.
    if (!process.getActiveResourcesInfo().some((name) => /^F(?:S|ile)/.test(name))) return
    const args = ['-e', killer, String(process.pid)]
    spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'ignore'], env: {}, detached: true })
  })
}
