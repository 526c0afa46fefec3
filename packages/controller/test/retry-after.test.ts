import { describe, expect, it } from 'vitest'

// Not part of the public interface; through it, every row would take as long as it says.
import { retryAfterMs } from '../src/retry-after.ts'

const now = Date.parse('Mon, 01 Jun 2026 12:00:00 GMT')

describe('retryAfterMs', () => {
  it.each([
    [undefined, 1000],
    ['', 1000],
    ['junk', 1000],
    ['junk 5', 1000],
    ['inf', 1000],
    ['-inf', 1000],
    ['nan', 1000],
    ['Infinity', 1000],
    ['1e999', 1000],
    ['-5', 50],
    ['0', 50],
    ['2.5', 2500],
    [' 3 ', 3000],
    ['60', 60_000],
    ['86400', 60_000],
    ['Mon, 01 Jun 2026 12:00:07 GMT', 7000],
    ['Mon, 01 Jun 2026 11:59:00 GMT', 1000],
    ['Tue, 02 Jun 2026 12:00:00 GMT', 60_000],
  ])('reads %j as %i ms', (header, ms) => {
    expect(retryAfterMs(header, now)).toBe(ms)
  })
})
