import { isOsmosisError, type OsmosisError } from '../errors.ts'
import { wait } from '../http/long-timer.ts'

/** Nobody waits longer than this before asking again. */
const longestPauseMs = 60_000
/** Where it asks for no time at all: doubles each time, up to a second. */
const firstOwnPauseMs = 10
const longestOwnPauseMs = 1_000

/** Why model calls of a rollout wait as their endpoint asked them to: an error for each. */
export type PausedCalls = OsmosisError[]

/**
 * Waits after an error for as long as the endpoint asks to, as one does whose weights are being updated:
 * that is no failure. A minute at a time, until the signal ends it. Resolves with whether it was asked to.
 *
 * @param isPassing - whether the endpoint wants to be asked again
 */
export function pausesOf(
  isPassing: (error: unknown) => boolean,
  { signal, paused }: { readonly signal: AbortSignal; readonly paused: PausedCalls },
): (error: unknown) => Promise<boolean> {
  let pauses = 0
  return async (error) => {
    const askedMs = pauseMs(error)
    if (askedMs === undefined || !isPassing(error)) {
      pauses = 0
      return false
    }
    const ownMs = Math.min(firstOwnPauseMs * 2 ** pauses, longestOwnPauseMs)
    pauses += 1
    const why = error as OsmosisError
    paused.push(why)
    try {
      await wait(Math.min(askedMs || ownMs, longestPauseMs), signal)
    } finally {
      paused.splice(paused.indexOf(why), 1)
    }
    return true
  }
}

/** How long the endpoint asks to wait; undefined for an error of another kind. Milliseconds. */
function pauseMs(error: unknown): number | undefined {
  if (!isOsmosisError(error) || error.code !== 'policy_http_error') return undefined
  return error.status === 429 || error.status === 503 ? error.retryAfterMs : undefined
}
