import { isOsmosisError, type OsmosisError } from '../errors.ts'
import { wait } from '../http/long-timer.ts'

/** Nobody waits longer than this before asking again. */
const longestPauseMs = 60_000
/** Where it asks for no time at all: doubles each time, up to a second. */
const firstOwnPauseMs = 10
const longestOwnPauseMs = 1_000

/** The model calls of a rollout that wait because their endpoint said so, by why. */
export type PausedCalls = Set<OsmosisError>

/**
 * Sends a request again for as long as the endpoint asks to wait, as one does whose weights are being
 * updated: that is no failure. A minute at a time, until the signal ends it.
 *
 * @param isPassing - whether the endpoint wants to be asked again
 */
export async function untilResumed<T>(
  send: () => Promise<T>,
  isPassing: (error: unknown) => boolean,
  { signal, paused }: { readonly signal: AbortSignal; readonly paused: PausedCalls | undefined },
): Promise<T> {
  for (let pauses = 0; ; pauses += 1) {
    try {
      return await send()
    } catch (error) {
      const askedMs = pauseMs(error)
      if (askedMs === undefined || !isPassing(error)) throw error
      const ownMs = Math.min(firstOwnPauseMs * 2 ** pauses, longestOwnPauseMs)
      const why = error as OsmosisError
      paused?.add(why)
      try {
        await wait(Math.min(askedMs || ownMs, longestPauseMs), signal)
      } finally {
        paused?.delete(why)
      }
    }
  }
}

/** How long the endpoint asks to wait; undefined for an error of another kind. Milliseconds. */
function pauseMs(error: unknown): number | undefined {
  if (!isOsmosisError(error) || error.code !== 'policy_http_error') return undefined
  return error.status === 429 || error.status === 503 ? error.retryAfterMs : undefined
}
