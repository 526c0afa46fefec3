import { OsmosisError } from '@osmosis/core'
import { retryAfterMs, retryRequest } from '@osmosis/core/http'
import { expect, it } from 'vitest'

import { shouldRetry } from '../../src/http/retry.ts'

const now = Date.parse('Mon, 01 Jun 2026 12:00:00 GMT')

it.each([
  [undefined, undefined],
  ['', undefined],
  ['junk', undefined],
  ['junk 5', undefined],
  ['nan', undefined],
  ['Infinity', undefined],
  ['1e999', undefined],
  ['-5', 0],
  ['0', 0],
  ['2.5', 2500],
  [' 3 ', 3000],
  ['86400', 86_400_000],
  ['Mon, 01 Jun 2026 12:00:07 GMT', 7000],
  ['Mon, 01 Jun 2026 11:59:00 GMT', undefined],
])('reads Retry-After %j as %s ms', (value, ms) => {
  expect(retryAfterMs({ 'retry-after': value }, now)).toBe(ms)
  expect(retryAfterMs(new Headers(value === undefined ? {} : [['Retry-After', value]]), now)).toBe(
    ms,
  )
  expect(retryAfterMs({ 'retry-after': value === undefined ? [] : [value, '99'] }, now)).toBe(ms)
})

it('prefers milliseconds to seconds, when they can be read', () => {
  expect(retryAfterMs({ 'retry-after': '3', 'retry-after-ms': '250' })).toBe(250)
  expect(retryAfterMs({ 'retry-after': '3', 'retry-after-ms': 'soon' })).toBe(3000)
})

it('reads whether to try again only where that is said', () => {
  expect(shouldRetry({ 'x-should-retry': 'true' })).toBe(true)
  expect(shouldRetry({ 'x-should-retry': 'False' })).toBe(false)
  expect(shouldRetry({ 'x-should-retry': 'maybe' })).toBeUndefined()
  expect(shouldRetry(new Headers())).toBeUndefined()
})

it('a wait that ends after the time for retries is not begun', async () => {
  const busy = new OsmosisError('policy_unreachable', 'busy', { retryAfterMs: 60_000 })
  const limits = { retries: 5, minDelayMs: 1, maxDelayMs: 1, totalMs: 30_000 }
  let attempts = 0
  const answer = retryRequest(
    () => {
      attempts += 1
      throw busy
    },
    { ...limits, isRetryable: () => true },
  )
  // A test ends long before a minute.
  await expect(answer).rejects.toBe(busy)
  expect(attempts).toBe(1)
})
