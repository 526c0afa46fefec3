/** Headers of an answer, as undici and `node:http` hold them, or as a `fetch` has them. */
export type AnswerHeaders = Headers | Readonly<Record<string, string | string[] | undefined>>

/**
 * How long an answer asks to wait before the next try: `retry-after-ms`, or `Retry-After` in
 * seconds or as an HTTP date. Milliseconds, not limited; undefined when nothing usable is said, as
 * with a date that is over.
 */
export function retryAfterMs(headers: AnswerHeaders, now: number = Date.now()): number | undefined {
  return (
    amount(headerOf(headers, 'retry-after-ms'), 1) ??
    amount(headerOf(headers, 'retry-after'), 1000) ??
    untilDate(headerOf(headers, 'retry-after'), now)
  )
}

/** What `x-should-retry` says about asking again; undefined when it says nothing. */
export function shouldRetry(headers: AnswerHeaders): boolean | undefined {
  const said = headerOf(headers, 'x-should-retry').toLowerCase()
  return said === 'true' || said === 'false' ? said === 'true' : undefined
}

/** The first value of a header, '' without one. `name` is in small letters. */
export function headerOf(headers: AnswerHeaders, name: string): string {
  const value = isFetched(headers) ? headers.get(name) : headers[name]
  return ((Array.isArray(value) ? value[0] : value) ?? '').trim()
}

function isFetched(headers: AnswerHeaders): headers is Headers {
  return typeof headers.get === 'function'
}

function amount(text: string, unitMs: number): number | undefined {
  const number = text === '' ? Number.NaN : Number(text)
  return Number.isFinite(number) ? Math.max(number, 0) * unitMs : undefined
}

function untilDate(text: string, now: number): number | undefined {
  // Date.parse also reads things like `junk 5`; every HTTP date ends in GMT.
  const ms = text.endsWith('GMT') ? Date.parse(text) - now : Number.NaN
  return ms > 0 ? ms : undefined
}
