import { setTimeout as sleep } from 'node:timers/promises'

import { OsmosisError } from '@osmosis/core'

const pauseMs = 500

/**
 * Does something with Redis, also when that has to come back first.
 *
 * @param ms - how long to wait for that
 * @param isPassing - which failures are tried again; default: all
 * @throws OsmosisError with code `queue_unavailable`
 */
export async function patiently<T>(
  ms: number,
  ask: () => Promise<T>,
  isPassing: (error: unknown) => boolean = () => true,
): Promise<T> {
  const late = Promise.withResolvers<never>()
  // Nobody listens between two tries.
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
        if (!isPassing(error) || performance.now() + pauseMs >= until) throw error
      }
      await sleep(pauseMs)
    }
  } finally {
    clearTimeout(timer)
  }
}
