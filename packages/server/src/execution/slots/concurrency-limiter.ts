/** Assigns slots in the order of requests. */
export class ConcurrencyLimiter {
  /** Null: unlimited. */
  readonly maxConcurrent: number | null
  readonly #waiting = new Set<() => void>()
  #running = 0

  constructor(maxConcurrent: number | null) {
    this.maxConcurrent = maxConcurrent
  }

  /** Number of slots in use. */
  get running(): number {
    return this.#running
  }

  /** Number of callers that wait for a slot. */
  get queued(): number {
    return this.#waiting.size
  }

  /**
   * Waits for a slot and resolves with the function that releases it; calling that again does nothing.
   *
   * @throws the reason of `signal` when that is aborted first; no slot is taken then
   */
  async acquire(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.maxConcurrent !== null && this.#running >= this.maxConcurrent) {
      await this.#turn(signal)
    } else {
      this.#running += 1
    }
    let held = true
    return () => {
      if (!held) return
      held = false
      this.#release()
    }
  }

  /** Resolves when this waiter has received a slot, which `running` already counts. */
  async #turn(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    const onAbort = (): void => {
      this.#waiting.delete(onTurn)
      reject(signal.reason)
    }
    const onTurn = (): void => {
      signal.removeEventListener('abort', onAbort)
      resolve(undefined)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    this.#waiting.add(onTurn)
    await promise
  }

  #release(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#running -= 1
      return
    }
    this.#waiting.delete(next)
    next()
  }
}

/** How long the code that starts in one turn of the event loop may block it. Milliseconds. */
const longestMs = 1

const starting: (() => void)[] = []
/** When the turn began that is in progress; undefined between turns. */
let turnBegan: number | undefined

/**
 * Resolves in a turn of the event loop that was not blocked yet, so that at most one slow piece of user
 * code starts before requests are read and timers fire again. Starting one per turn would slow down a
 * busy server, whose turns are long.
 */
export function ownTurn(): Promise<void> {
  return new Promise<void>((resolve) => {
    starting.push(resolve)
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
  else starting.shift()?.()
}

function endTurn(): void {
  turnBegan = undefined
}
