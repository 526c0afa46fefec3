const waiting: (() => void)[] = []

/**
 * Resolves in a turn of the event loop that no other caller gets: user code that is begun in it holds
 * up at most one more of its kind before requests are read and timers fire again.
 */
export function ownTurn(): Promise<void> {
  return new Promise<void>((resolve) => {
    waiting.push(resolve)
    if (waiting.length === 1) setImmediate(next)
  })
}

function next(): void {
  waiting.shift()?.()
  // An immediate that is set in the phase of immediates runs in the next turn.
  if (waiting.length > 0) setImmediate(next)
}
