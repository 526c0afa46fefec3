import { workerData } from 'node:worker_threads'

import { reportExit, residentBytes } from './exit-report.ts'

// A thread beside user code: it continues when user code blocks the event loop or garbage collection never ends.

/** The limits that the guard of a worker process checks. */
export interface GuardData {
  /** The process that started this one. */
  readonly parent: number
  readonly maxMemoryBytes: number
  /** V8 ends the process when its heap has this size. */
  readonly maxHeapBytes: number
}

const { parent, maxMemoryBytes, maxHeapBytes } = workerData as GuardData
const everyMs = 250
let isLarge = false

setInterval(() => {
  // The parent has exited.
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  const bytes = residentBytes() ?? 0
  // When the heap is full, V8 aborts without time for a report.
  if (!isLarge && bytes > maxHeapBytes * 0.75) {
    isLarge = true
    reportExit({ kind: 'large' })
  }
  // The limit of the heap does not count buffers.
  if (bytes <= maxMemoryBytes) return
  reportExit({ kind: 'memory', megabytes: Math.round(maxMemoryBytes / 2 ** 20) })
  process.kill(process.pid, 'SIGKILL')
}, everyMs)
