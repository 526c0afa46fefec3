// @module-tag slow
import { expect, test } from 'vitest'

import { alarms, coverage, found } from './simulation.ts'

// Small and with a seed; benchmarks/eval-statistics.ts does the same with thousands of trials.

test('intervals of a pass rate hold the truth 95 times in 100, those of a binomial far less often', () => {
  const { clustered, naive } = coverage(50, 400, 1)
  expect(clustered).toBeGreaterThan(0.93)
  expect(clustered).toBeLessThan(0.97)
  expect(naive).toBeLessThan(0.8)
})

test('a model compared with itself is said to differ in at most 8 of 100 comparisons', () => {
  expect(alarms(60, 100, 2)).toBeLessThanOrEqual(0.08)
})

test('a change of 4.7 points at 200 rows is found by comparing rows, not by comparing intervals', () => {
  const { paired, unpaired } = found(200, 40, 3)
  expect(paired).toBeGreaterThan(0.7)
  expect(unpaired).toBeLessThan(0.1)
})
