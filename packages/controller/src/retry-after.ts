const defaultMs = 1000
const shortestMs = 50
const longestMs = 60_000

/**
 * How long a `Retry-After` header asks to wait: seconds or an HTTP date. Milliseconds, between 50
 * and 60 000; 1000 without a header, for a date in the past and for anything unreadable.
 */
export function retryAfterMs(header: string | undefined, now: number = Date.now()): number {
  const asked = requestedMs(header?.trim() ?? '', now)
  return asked === undefined ? defaultMs : Math.min(Math.max(asked, shortestMs), longestMs)
}

function requestedMs(text: string, now: number): number | undefined {
  if (text === '') return undefined
  const seconds = Number(text)
  if (Number.isFinite(seconds)) return seconds * 1000
  // Date.parse also reads things like `junk 5`; every HTTP date ends in GMT.
  const untilDate = text.endsWith('GMT') ? Date.parse(text) - now : Number.NaN
  return untilDate > 0 ? untilDate : undefined
}
