import { setTimeout as sleep } from 'node:timers/promises'

import pRetry from 'p-retry'

import { isOsmosisError } from '../errors.ts'

/** A server may not make us wait longer than this. */
const longestRetryAfterMs = 60_000

/** Options of {@link retryRequest}. All times are milliseconds. */
export interface RetryOptions {
  /** Tries after the first one. */
  retries: number
  /** Wait before the first retry; doubles each time, with jitter. */
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
    minTimeout: options.minDelayMs,
    maxTimeout: options.maxDelayMs,
    maxRetryTime: options.totalMs ?? Number.POSITIVE_INFINITY,
    randomize: true,
    signal,
    shouldRetry: async ({ error, retryDelay }) => {
      if (!options.isRetryable(error)) return false
      const asked = isOsmosisError(error) ? (error.retryAfterMs ?? 0) : 0
      const extra = Math.min(asked, longestRetryAfterMs) - retryDelay
      // An abort is thrown by pRetry itself, with the signal's own reason.
      if (extra > 0) await sleep(extra, undefined, { signal }).catch(() => {})
      return true
    },
  })
}

/** Whether an answer with this status is worth asking again. */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 425 || status === 429 || status >= 500
}

/**
 * Reads a `Retry-After` header: seconds or an HTTP date. Milliseconds; undefined when it is
 * missing or says nothing usable.
 */
export function parseRetryAfter(value: string | undefined): number | undefined {
  if (value === undefined || value.trim() === '') return undefined
  const seconds = Number(value)
  const milliseconds = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1000
  return Number.isFinite(milliseconds) ? Math.max(milliseconds, 0) : undefined
}
