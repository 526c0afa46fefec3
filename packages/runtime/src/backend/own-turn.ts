/** How long the code that is begun in one turn may hold up others. Milliseconds. */
const longestMs = 1

const waiting: (() => void)[] = []
/** When the turn began that is going on; undefined between turns. */
let turnBegan: number | undefined

/**
 * Resolves in a turn of the event loop in which what was begun before took no longer than a moment: of user
 * code that takes long one piece at most is begun before requests are read and timers fire again. One
 * in each turn would make a server that is busy slow, whose turns are long.
 */
export function ownTurn(): Promise<void> {
  return new Promise<void>((resolve) => {
    waiting.push(resolve)
    setImmediate(begin)
  })
}

function begin(): void {
  const now = performance.now()
  if (turnBegan === undefined) {
    turnBegan = now
    // An immediate that is set in the phase of immediates runs in the next turn, ahead of those set later.
    setImmediate(endTurn)
  }
  if (now - turnBegan > longestMs) setImmediate(begin)
  else waiting.shift()?.()
}

function endTurn(): void {
  turnBegan = undefined
}
