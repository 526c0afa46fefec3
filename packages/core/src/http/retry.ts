import { isOsmosisError } from '../errors.ts'
import { wait } from './long-timer.ts'

/** A server may not make us wait longer than this. */
const longestRetryAfterMs = 60_000

/** Options of {@link retryRequest}. All times are milliseconds. */
export interface RetryOptions {
  /** Tries after the first one. */
  retries: number
  /** Longest wait before the first retry; doubles each time. Waits are random up to it. */
  minDelayMs: number
  /** Longest wait between two tries that the server did not ask for. */
  maxDelayMs: number
  /** No retry starts later than this after the first try; default: no limit. */
  totalMs?: number
  /** Ends waiting and retrying; the promise rejects with its reason. */
  signal?: AbortSignal | undefined
  isRetryable: (error: unknown) => boolean
  /** Asked first after a failure: waits and resolves with true where that counts as no try. */
  pause?: (error: unknown) => Promise<boolean>
}

/**
 * Sends a request again while it fails for reasons that pass: the one retry loop for model calls
 * and callbacks. An `OsmosisError` with `retryAfterMs` is honoured, up to a minute.
 */
export async function retryRequest<T>(
  attempt: (attemptNumber: number) => Promise<T>,
  options: RetryOptions,
): Promise<T> {
  const startedAt = performance.now()
  options.signal?.throwIfAborted()
  try {
    return await attempt(1)
  } catch (failure) {
    return retryFailed(failure, attempt, options, startedAt)
  }
}

/**
 * The same for a request that was sent once and failed.
 *
 * @param startedAt - when that was, as `performance.now` has it; default: now
 */
export async function retryFailed<T>(
  failure: unknown,
  attempt: (attemptNumber: number) => Promise<T>,
  options: RetryOptions,
  startedAt = performance.now(),
): Promise<T> {
  const { retries, totalMs = Number.POSITIVE_INFINITY, signal } = options
  let latest = failure
  for (let attemptNumber = 1; ;) {
    signal?.throwIfAborted()
    if (!(await options.pause?.(latest))) {
      if (attemptNumber > retries || performance.now() - startedAt >= totalMs) throw latest
      if (!options.isRetryable(latest)) throw latest
      await wait(delayBefore(attemptNumber, latest, options), signal)
      if (performance.now() - startedAt >= totalMs) throw latest
      attemptNumber += 1
    }
    signal?.throwIfAborted()
    try {
      return await attempt(attemptNumber)
    } catch (error) {
      latest = error
    }
  }
}

/** Spread over the whole interval, as it takes to let an overloaded server recover. */
function delayBefore(
  attemptNumber: number,
  error: unknown,
  { minDelayMs, maxDelayMs }: RetryOptions,
): number {
  const cap = Math.min(minDelayMs * 2 ** (attemptNumber - 1), maxDelayMs)
  const asked = isOsmosisError(error) ? (error.retryAfterMs ?? 0) : 0
  return Math.max(Math.random() * cap, Math.min(asked, longestRetryAfterMs))
}

/** Whether the same request may be answered differently later than with this status. */
export function isPassingStatus(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500
}
