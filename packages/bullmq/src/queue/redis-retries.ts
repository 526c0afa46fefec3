import { setTimeout as sleep } from 'node:timers/promises'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { wait } from '@osmosis/core/http'

const pauseMs = 500
/** For a caller that waits for its answer. */
const shortPauseMs = 250

/**
 * Does something with Redis, also when that has to come back first.
 *
 * @param ms - how long to wait for that
 * @throws OsmosisError with code `queue_unavailable`
 */
export async function retryFor<T>(ms: number, ask: () => Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  // Between two tries no code waits for it.
  late.promise.catch(() => {})
  const timer = setTimeout(() => {
    const seconds = Math.round(ms / 1000)
    late.reject(new OsmosisError('queue_unavailable', `Redis was away for more than ${seconds} s.`))
  }, ms)
  const until = performance.now() + ms
  try {
    for (;;) {
      try {
        return await Promise.race([ask(), late.promise])
      } catch (error) {
        if (performance.now() + pauseMs >= until) throw error
      }
      await sleep(pauseMs)
    }
  } finally {
    clearTimeout(timer)
  }
}

/** Tries again while Redis is unreachable, until the signal is aborted. */
export async function retryUntil<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (!isUnavailable(error) || signal.aborted) throw error
    }
    await wait(shortPauseMs, signal).catch(() => {})
  }
}

/** Whether an error means that Redis does not answer now. */
export function isUnavailable(error: unknown): boolean {
  return isOsmosisError(error) && error.code === 'queue_unavailable'
}
