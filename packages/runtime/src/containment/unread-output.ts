/** Of a pipe whose reader has gone, and of a terminal that is closed. */
const nobodyReads = new Set(['EPIPE', 'EIO'])

let isGoingOn = false

/**
 * Whoever reads the output of this process may stop, or be gone, and nothing fails of that: neither the
 * process nor the rollout that printed. Idempotent.
 */
export function goOnUnread(): void {
  if (isGoingOn) return
  isGoingOn = true
  for (const output of [process.stdout, process.stderr]) {
    output.on('error', (error: NodeJS.ErrnoException) => {
      if (!nobodyReads.has(error.code ?? '')) throw error
    })
  }
}
