import { workerData } from 'node:worker_threads'

import { sayLastWords } from './last-words.ts'
import { residentBytes } from './resident-bytes.ts'

// A thread beside user code: it goes on when that blocks the event loop or collects garbage for good.

/** What the guard of a worker process looks after. */
export interface GuardData {
  /** The process that started this one. */
  readonly front: number
  readonly maxMemoryBytes: number
}

const { front, maxMemoryBytes } = workerData as GuardData
const everyMs = 250

setInterval(() => {
  // Nobody is left to work for.
  if (process.ppid !== front) process.kill(process.pid, 'SIGKILL')
  // The limit of the heap does not count buffers.
  if ((residentBytes() ?? 0) <= maxMemoryBytes) return
  sayLastWords({ kind: 'memory', megabytes: Math.round(maxMemoryBytes / 2 ** 20) })
  process.kill(process.pid, 'SIGKILL')
}, everyMs)
