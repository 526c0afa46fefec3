import { spawn } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'

// User code may open a FIFO, and a disk may be gone: a thread of libuv then waits forever. There are few of them.

/** All that are open. */
const watches = new Set<FileSystemWatch>()

/** Asks the file system of a folder every second whether it answers. The caller closes it. */
export class FileSystemWatch {
  readonly #folder: string
  readonly #timer = setInterval(() => this.#ask(), 1000).unref()
  #isAsked = false
  #silentSeconds = 0

  constructor(folder: string) {
    this.#folder = folder
    watches.add(this)
  }

  /** For how long the file system has not answered. Time in which the event loop was blocked does not count. */
  get silentSeconds(): number {
    return this.#silentSeconds
  }

  close(): void {
    clearInterval(this.#timer)
    watches.delete(this)
  }

  #ask(): void {
    if (this.#isAsked) {
      this.#silentSeconds += 1
      return
    }
    this.#isAsked = true
    const answered = (): void => {
      this.#isAsked = false
      this.#silentSeconds = 0
    }
    stat(this.#folder).then(answered, answered)
  }
}

/** How long a file system may not answer while a process ends. Seconds. */
const longestSilence = 10

/**
 * Ends the process when a file system does not answer: its end would wait forever.
 *
 * @param ended - aborted when it needs no watching any more
 */
export function endWhenBlocked(ended: AbortSignal, exitCode: number, onBlocked: () => void): void {
  const own = new FileSystemWatch(tmpdir())
  const timer = setInterval(() => {
    if (![...watches].some(({ silentSeconds }) => silentSeconds >= longestSilence)) return
    onBlocked()
    process.exit(exitCode)
  }, 1000).unref()
  ended.addEventListener('abort', () => {
    clearInterval(timer)
    own.close()
  })
}

/** Kills a process unless it has ended, which closes the standard input. */
const killer = `
process.stdin.on('end', () => process.exit()).resume()
setTimeout(() => process.kill(Number(process.argv[1]), 'SIGKILL'), 3000)`

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
