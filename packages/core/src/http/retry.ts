import { isOsmosisError } from '../errors.ts'
import { headerOf, type ResponseHeaders } from './response.ts'
import { wait } from './waiting.ts'

/** Longest wait that an answer can request. */
const maxRetryAfterMs = 60_000

/** Options of {@link retryRequest}. All times are milliseconds. */
export interface RetryOptions {
  /** Attempts after the first one. */
  retries: number
  /** Longest wait before the first retry; doubles each time. Waits are random up to it. */
  minDelayMs: number
  /** Longest wait between two attempts, unless an answer requested a longer one. */
  maxDelayMs: number
  /**
   * No retry starts later than this after the first attempt: one that would is not waited for, and the last failure is thrown
   * at once. Default: no limit.
   */
  totalMs?: number
  /** Ends waiting and retrying; the promise rejects with its reason. */
  signal?: AbortSignal | undefined
  isRetryable: (error: unknown) => boolean
  /** Called first after a failure. Resolves with true after a wait that does not count as a retry. */
  pause?: (error: unknown) => Promise<boolean>
}

/**
 * Sends a request again while its failure is transient. The only retry loop, for model calls and
 * callbacks. Waits as long as the `retryAfterMs` of an `OsmosisError` says, up to a minute.
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
 * The same for a request whose first attempt has failed.
 *
 * @param startedAt - when it started, by `performance.now`; default: now
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
      if (attemptNumber > retries || !options.isRetryable(latest)) throw latest
      const delayMs = delayBefore(attemptNumber, latest, options)
      if (performance.now() - startedAt + delayMs >= totalMs) throw latest
      await wait(delayMs, signal)
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

/** Random over the whole interval, so that clients of an overloaded server spread out. */
function delayBefore(
  attemptNumber: number,
  error: unknown,
  { minDelayMs, maxDelayMs }: RetryOptions,
): number {
  const cap = Math.min(minDelayMs * 2 ** (attemptNumber - 1), maxDelayMs)
  const requestedMs = isOsmosisError(error) ? (error.retryAfterMs ?? 0) : 0
  return Math.max(Math.random() * cap, Math.min(requestedMs, maxRetryAfterMs))
}

/** Whether a status can be transient: the same request may succeed later. */
export function isTransientStatus(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500
}

/**
 * How long an answer asks to wait before the next attempt: `retry-after-ms`, or `Retry-After` in seconds or
 * as an HTTP date. Milliseconds, unlimited; undefined without a valid value and for a date in the past.
 */
export function retryAfterMs(
  headers: ResponseHeaders,
  now: number = Date.now(),
): number | undefined {
  return (
    duration(headerOf(headers, 'retry-after-ms'), 1) ??
    duration(headerOf(headers, 'retry-after'), 1000) ??
    untilDate(headerOf(headers, 'retry-after'), now)
  )
}

/** How long a server may be away (see {@link isAway}) before that counts as a failure. Milliseconds. */
export const awayPatienceMs = 90_000

/** Codes of connections that are refused, or that end before an answer begins: of system calls, and of undici. */
const awayCodes = new Set<unknown>(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

/** A request without an answer, or one that was refused. */
export interface FailedRequest {
  /** Undefined without an answer. */
  readonly status?: number | undefined
  /** What the refusal says. Default: nothing. */
  readonly text?: string | undefined
  /** Code of the error of the connection. Default: none. */
  readonly code?: unknown
}

/**
 * Whether a server is away for a while, as it is while it restarts: it refuses connections, or ends them before it answers, or
 * says that it still loads its model. llama.cpp answers 503 with "Loading model", others with "The model … is currently
 * loading". Where the answer says how long to wait, follow {@link retryAfterMs} instead.
 */
export function isAway({ status, text = '', code }: FailedRequest): boolean {
  if (status === undefined) return awayCodes.has(code)
  return status === 503 && /\bloading\b.{0,200}\bmodel\b|\bmodel\b.{0,200}\bloading\b/is.test(text)
}

/** The value of `x-should-retry`; undefined without a valid one. */
export function shouldRetry(headers: ResponseHeaders): boolean | undefined {
  const value = headerOf(headers, 'x-should-retry').toLowerCase()
  return value === 'true' || value === 'false' ? value === 'true' : undefined
}

function duration(text: string, unitMs: number): number | undefined {
  const number = text === '' ? Number.NaN : Number(text)
  return Number.isFinite(number) ? Math.max(number, 0) * unitMs : undefined
}

function untilDate(text: string, now: number): number | undefined {
  // Date.parse also accepts text like `junk 5`; every HTTP date ends in GMT.
  const ms = text.endsWith('GMT') ? Date.parse(text) - now : Number.NaN
  return ms > 0 ? ms : undefined
}
