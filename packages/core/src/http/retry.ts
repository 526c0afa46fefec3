import pRetry from 'p-retry'

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
}

/**
 * Sends a request again while it fails for reasons that pass: the one retry loop for model calls
 * and callbacks. An `OsmosisError` with `retryAfterMs` is honoured, up to a minute.
 */
export async function retryRequest<T>(
  attempt: (attemptNumber: number) => Promise<T>,
  options: RetryOptions,
): Promise<T> {
  const { signal } = options
  return pRetry(attempt, {
    retries: options.retries,
    maxRetryTime: options.totalMs ?? Number.POSITIVE_INFINITY,
    signal,
    // The waiting is done below: pRetry's own neither spreads clients over the whole interval, as
    // it takes to let an overloaded server recover, nor knows what the server asked for.
    minTimeout: 0,
    shouldRetry: async ({ error, attemptNumber }) => {
      if (!options.isRetryable(error)) return false
      const cap = Math.min(options.minDelayMs * 2 ** (attemptNumber - 1), options.maxDelayMs)
      const asked = isOsmosisError(error) ? (error.retryAfterMs ?? 0) : 0
      const delay = Math.max(Math.random() * cap, Math.min(asked, longestRetryAfterMs))
      // An abort is thrown by pRetry itself, with the signal's own reason.
      await wait(delay, signal).catch(() => {})
      return true
    },
  })
}

/** Whether the same request may be answered differently later than with this status. */
export function isPassingStatus(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500
}
