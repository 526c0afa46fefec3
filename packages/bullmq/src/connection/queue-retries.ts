import { setTimeout as sleep } from 'node:timers/promises'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { wait } from '@osmosis/core/http'
import { ReplyError } from 'ioredis'

/** The pause between two tries. Milliseconds. */
const pauseMs = 500
/** The pause when a caller waits for an answer. */
const shortPauseMs = 250

/**
 * Calls Redis, and tries again while it is unreachable.
 *
 * @param ms - for how long, also for a call that does not end
 * @throws OsmosisError with code `queue_unavailable`, which says why the last call failed; other errors of `ask` at once
 */
export async function retryFor<T>(ms: number, ask: () => Promise<T>): Promise<T> {
  let latest: unknown
  const late = Promise.withResolvers<never>()
  // Between two tries it is not awaited.
  late.promise.catch(() => {})
  const timer = setTimeout(() => {
    const silent = `Redis did not answer within ${Math.round(ms / 1000)} s.`
    late.reject(latest ?? new OsmosisError('queue_unavailable', silent))
  }, ms)
  const until = performance.now() + ms
  try {
    for (;;) {
      try {
        return await Promise.race([ask(), late.promise])
      } catch (error) {
        if (!isUnavailable(error) || performance.now() + pauseMs >= until) throw error
        latest = error
      }
      await sleep(pauseMs)
    }
  } finally {
    clearTimeout(timer)
  }
}

/** Tries again while Redis is unreachable, or while `mayHelp` says so of an error, until the signal is aborted. */
export async function retryUntil<T>(
  signal: AbortSignal,
  act: () => Promise<T>,
  mayHelp: (error: unknown) => boolean = isUnavailable,
): Promise<T> {
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (!mayHelp(error) || signal.aborted) throw error
    }
    await wait(shortPauseMs, signal).catch(() => {})
  }
}

/** Whether an error means that Redis is unreachable. */
export function isUnavailable(error: unknown): boolean {
  return isOsmosisError(error) && error.code === 'queue_unavailable'
}

/**
 * The word with which Redis refused a command, as `NOREPLICAS` or `OOM`; undefined for other errors. Such a command has done
 * nothing. Redis 6 puts the word of a script's command in the middle of the message.
 */
export function refusalWord(error: unknown): string | undefined {
  if (!isUnavailable(error)) return undefined
  const { cause } = error as OsmosisError
  if (!(cause instanceof ReplyError && cause instanceof Error)) return undefined
  return cause.message.match(/(?<=^|: -)[A-Z]{3,}\b/g)?.at(-1)
}
